// Package double is an EventStoreDB cluster in memory, for the demonstration and
// for tests: the real client speaks to it over TCP, by the gRPC stubs that the
// client's module ships.
//
// It follows the servers of 22.10 and later in what package kurrentdb relies on:
// appends with an expected revision and their rules of idempotence, reads of
// streams and of $all in both directions, subscriptions with filters and
// checkpoints, sparse positions, the refusal of positions at which no record
// begins, the limit of an append, leaders, followers that lag, and elections. It
// does not delete, link, authenticate or batch, and it forgets all when it is
// closed.
//
// Nodes can be taken down, followers frozen, and each step of a call made to fail
// or hang, so that what a network does to a client can be done on purpose.
package double

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Options say what a [Cluster] is like. Only Now is required.
type Options struct {
	// Now returns the time that an event is stamped with.
	Now func() time.Time

	// Nodes is how many there are; one if zero. A cluster of one answers gossip
	// too, as servers do.
	Nodes int

	// MaxAppend is the most bytes that one append may have; 1 MiB if zero.
	MaxAppend int
}

// A Moment is a point in a call at which a [Fault] may strike.
type Moment int

// The moments of calls.
const (
	BeforeConnect Moment = iota // a client asks a node for its features or for gossip
	BeforeAppend                // all events have arrived, none is stored
	AfterAppend                 // all are stored, the answer has not left
	BeforeRead                  // a read or a subscription has arrived
	BeforeEvent                 // an event is about to be sent to a reader
)

// A Fault returns what is to be answered instead of going on, or nil. It may wait
// for ctx, the call's, to end, which withholds any answer.
type Fault func(ctx context.Context, m Moment) error

// A Cluster is a set of nodes with one log. Its methods may be called from several
// goroutines.
type Cluster struct {
	now       func() time.Time
	maxAppend int
	nodes     []*node

	mu      sync.Mutex
	events  []*event // $all, by position
	streams map[string][]*event
	ids     map[uuid.UUID]*event // the latest of each id
	end     uint64               // where the next record will begin
	leader  int                  // index in nodes; -1 amid an election
	changed chan struct{}        // closed and replaced whenever any of this changes
	fault   Fault
	rewrite func(*streams.ReadResp)
	forgets bool
}

// New starts a cluster on free ports of the loopback interface. Its first node
// leads. The caller must close it.
func New(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{
		now:       o.Now,
		maxAppend: o.MaxAppend,
		streams:   make(map[string][]*event),
		ids:       make(map[uuid.UUID]*event),
		end:       firstPosition,
		changed:   make(chan struct{}),
	}
	if c.maxAppend == 0 {
		c.maxAppend = 1 << 20
	}
	for range max(o.Nodes, 1) {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("start a node of the double: %w", err)
		}
		n := &node{cluster: c, index: len(c.nodes), listener: listener, frozen: -1}
		c.nodes = append(c.nodes, n)
		n.up()
		n.accepting.Go(n.accept)
	}
	c.Lead(0)
	return c, nil
}

// Close ends all calls, nodes and goroutines of the cluster.
func (c *Cluster) Close() {
	for i, n := range c.nodes {
		c.Down(i)
		_ = n.listener.Close() // fails if it is closed already
		n.accepting.Wait()
	}
}

// URL is the connection string of the cluster: the address of its one node, or all
// nodes as seeds of gossip.
func (c *Cluster) URL() string {
	hosts := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		hosts[i] = n.listener.Addr().String()
	}
	return "esdb://" + strings.Join(hosts, ",") + "?tls=false"
}

// NodeURL is the connection string of one node, for clients that do not ask who
// leads.
func (c *Cluster) NodeURL(i int) string {
	return "esdb://" + c.nodes[i].listener.Addr().String() + "?tls=false"
}

// Down cuts all connections of a node. Until [Cluster.Up], new ones are cut at once.
func (c *Cluster) Down(i int) { c.nodes[i].down() }

// Up lets a node serve again.
func (c *Cluster) Up(i int) { c.nodes[i].up() }

// Lead makes a node the leader, which gets all that the log holds; -1 begins an
// election that another Lead ends.
func (c *Cluster) Lead(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = i
	if i >= 0 {
		c.nodes[i].frozen = -1
		c.add("$epoch-information", []proposed{{id: uuid.New(), kind: "$epoch-information", contentType: "application/json", data: []byte("{}")}})
	}
	c.notify()
}

// Freeze lets a follower lag: it shows the log as it is now until [Cluster.Thaw].
func (c *Cluster) Freeze(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i].frozen = len(c.events)
}

// Thaw lets a follower catch up.
func (c *Cluster) Thaw(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i].frozen = -1
	c.notify()
}

// SetFault lets f strike at each moment of each call from now on; nil ends that.
func (c *Cluster) SetFault(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Rewrite lets f change each answer to a read before it is sent; nil ends that.
func (c *Cluster) Rewrite(f func(*streams.ReadResp)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rewrite = f
}

// Forget makes the cluster refuse a write that it has already, instead of
// recognising it: some servers did so after a change of the leader.
func (c *Cluster) Forget(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgets = on
}

// Len returns how many events there are in a stream.
func (c *Cluster) Len(stream string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams[stream])
}

// strike calls the fault at m.
func (c *Cluster) strike(ctx context.Context, m Moment) error {
	c.mu.Lock()
	f := c.fault
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, m)
}

// notify wakes whoever waits for a change. The caller holds c.mu.
func (c *Cluster) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// A node is one server of the cluster. Its port stays its own while it is down, so
// that no other process can take it.
type node struct {
	cluster   *Cluster
	index     int
	listener  net.Listener
	accepting sync.WaitGroup
	frozen    int // events of $all it shows, -1 for all; guarded by cluster.mu

	mu      sync.Mutex
	server  *grpc.Server // nil while the node is down
	conns   *handover
	serving chan struct{} // closed when server has ended
}

// accept hands connections to the server, or cuts them while there is none.
func (n *node) accept() {
	for {
		conn, err := n.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		n.mu.Lock()
		conns := n.conns
		n.mu.Unlock()
		if conns == nil || !conns.give(conn) {
			_ = conn.Close() // nobody is there to hear of it
		}
	}
}

func (n *node) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server != nil {
		return
	}
	// Clients ask every ten seconds whether the node is there, which gRPC for Go
	// would take for an attack.
	policy := keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}
	server := grpc.NewServer(grpc.WaitForHandlers(true), grpc.KeepaliveEnforcementPolicy(policy))
	s := &service{node: n}
	streams.RegisterStreamsServer(server, s)
	serverfeatures.RegisterServerFeaturesServer(server, s)
	gossip.RegisterGossipServer(server, &members{node: n})
	n.server, n.serving = server, make(chan struct{})
	n.conns = &handover{addr: n.listener.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	go func(conns *handover, serving chan struct{}) {
		defer close(serving)
		_ = server.Serve(conns) // ends when the server is stopped
	}(n.conns, n.serving)
}

func (n *node) down() {
	n.mu.Lock()
	server, serving := n.server, n.serving
	n.server, n.conns = nil, nil
	n.mu.Unlock()
	if server != nil { // outside of the lock, for calls that are ending may want it
		server.Stop()
		<-serving
	}
}

// isUp reports whether the node serves.
func (n *node) isUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server != nil
}

// A handover is a [net.Listener] of connections that another one accepted.
type handover struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// give reports whether conn was taken.
func (h *handover) give(conn net.Conn) bool {
	select {
	case h.conns <- conn:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements [net.Listener].
func (h *handover) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements [net.Listener].
func (h *handover) Addr() net.Addr { return h.addr }
