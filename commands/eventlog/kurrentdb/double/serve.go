package double

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A service answers the calls that one node gets.
type service struct {
	streams.UnimplementedStreamsServer
	serverfeatures.UnimplementedServerFeaturesServer

	node *node
}

// GetSupportedMethods answers what clients ask first.
func (s *service) GetSupportedMethods(ctx context.Context, _ *shared.Empty) (*serverfeatures.SupportedMethods, error) {
	if err := s.node.cluster.strike(ctx, BeforeConnect); err != nil {
		return nil, err
	}
	const service = "event_store.client.streams.streams"
	return &serverfeatures.SupportedMethods{
		EventStoreServerVersion: "24.10.4",
		Methods: []*serverfeatures.SupportedMethod{
			{MethodName: "append", ServiceName: service},
			{MethodName: "read", ServiceName: service, Features: []string{"position", "events"}},
		},
	}, nil
}

// admit refuses a call that the node cannot take: amid an election any, and on a
// follower those that demand the leader.
func (n *node) admit(ctx context.Context, trailer func(metadata.MD)) error {
	c := n.cluster
	c.mu.Lock()
	leader := c.leader
	c.mu.Unlock()
	if leader < 0 {
		return status.Error(codes.Unavailable, "Server Is Not Ready")
	}
	in, _ := metadata.FromIncomingContext(ctx)
	demanded := in.Get("requires-leader")
	if leader == n.index || len(demanded) == 0 || !strings.EqualFold(demanded[0], "true") {
		return nil
	}
	host, port := c.nodes[leader].address()
	trailer(metadata.Pairs("exception", "not-leader", "leader-endpoint-host", host, "leader-endpoint-port", strconv.Itoa(port)))
	return status.Error(codes.NotFound, "Leader info available")
}

func (n *node) address() (host string, port int) {
	addr := n.listener.Addr().(*net.TCPAddr) //nolint:errcheck,forcetypeassert // it listens on TCP
	return addr.IP.String(), addr.Port
}

// Append implements the call of that name. Followers hand appends to the leader,
// unless the client demands that they do not.
func (s *service) Append(call streams.Streams_AppendServer) error {
	ctx, c := call.Context(), s.node.cluster
	stream, expected, option, err := appendHeader(call)
	if err != nil {
		return err
	}
	events, err := s.receive(call)
	if err != nil {
		return err
	}
	if err := s.node.admit(ctx, call.SetTrailer); err != nil {
		return err
	}
	if err := c.strike(ctx, BeforeAppend); err != nil {
		return err
	}
	v := c.append(stream, expected, events)
	if !v.ok {
		return call.SendAndClose(wrongVersion(option, v.latest))
	}
	if err := c.strike(ctx, AfterAppend); err != nil {
		return err
	}
	return call.SendAndClose(success(v))
}

func appendHeader(call streams.Streams_AppendServer) (stream string, expected int64, option *streams.AppendReq_Options, err error) {
	first, err := call.Recv()
	if err != nil {
		return "", 0, nil, err
	}
	option = first.GetOptions()
	stream = string(option.GetStreamIdentifier().GetStreamName())
	switch revision := option.GetExpectedStreamRevision().(type) {
	case *streams.AppendReq_Options_Revision:
		expected, err = toInt(revision.Revision)
	case *streams.AppendReq_Options_NoStream:
		expected = expectNone
	case *streams.AppendReq_Options_StreamExists:
		expected = expectExists
	case *streams.AppendReq_Options_Any:
		expected = expectAny
	default:
		err = errors.New("an append begins with the revision it expects")
	}
	if err == nil && stream == "" {
		err = errors.New("an append names its stream")
	}
	if err != nil {
		return "", 0, nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return stream, expected, option, nil
}

// receive takes in the events of an append. It stops at the first that makes it too
// large, whatever the client goes on to send.
func (s *service) receive(call streams.Streams_AppendServer) (events []proposed, err error) {
	size, limit := 0, s.node.cluster.maxAppend
	for {
		req, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		m := req.GetProposedMessage()
		id, err := parseID(m.GetId())
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		p := proposed{id: id, kind: m.GetMetadata()["type"], contentType: m.GetMetadata()["content-type"], custom: m.GetCustomMetadata(), data: m.GetData()}
		if p.kind == "" || p.contentType == "" {
			return nil, status.Error(codes.InvalidArgument, "Required Metadata Property is missing")
		}
		if size += p.size(); size > limit {
			call.SetTrailer(metadata.Pairs("exception", "maximum-append-size-exceeded", "maximum-append-size", strconv.Itoa(limit)))
			return nil, status.Errorf(codes.InvalidArgument, "Maximum Append Size of %d Exceeded.", limit)
		}
		events = append(events, p)
	}
}

func success(v verdict) *streams.AppendResp {
	answer := new(streams.AppendResp_Success)
	if v.latest < 0 {
		answer.CurrentRevisionOption = &streams.AppendResp_Success_NoStream{NoStream: new(shared.Empty)}
	} else {
		answer.CurrentRevisionOption = &streams.AppendResp_Success_CurrentRevision{CurrentRevision: uint64(v.latest)}
	}
	if v.last == nil {
		answer.PositionOption = &streams.AppendResp_Success_NoPosition{NoPosition: new(shared.Empty)}
	} else {
		answer.PositionOption = &streams.AppendResp_Success_Position{
			Position: &streams.AppendResp_Position{CommitPosition: v.last.position, PreparePosition: v.last.position},
		}
	}
	return &streams.AppendResp{Result: &streams.AppendResp_Success_{Success: answer}}
}

func wrongVersion(option *streams.AppendReq_Options, current int64) *streams.AppendResp {
	answer := new(streams.AppendResp_WrongExpectedVersion)
	if current < 0 {
		answer.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentNoStream{CurrentNoStream: new(shared.Empty)}
	} else {
		answer.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentRevision{CurrentRevision: uint64(current)}
	}
	switch revision := option.GetExpectedStreamRevision().(type) {
	case *streams.AppendReq_Options_Revision:
		answer.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedRevision{ExpectedRevision: revision.Revision}
	case *streams.AppendReq_Options_NoStream:
		answer.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedNoStream{ExpectedNoStream: new(shared.Empty)}
	case *streams.AppendReq_Options_StreamExists:
		answer.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedStreamExists{ExpectedStreamExists: new(shared.Empty)}
	default:
		answer.ExpectedRevisionOption = &streams.AppendResp_WrongExpectedVersion_ExpectedAny{ExpectedAny: new(shared.Empty)}
	}
	return &streams.AppendResp{Result: &streams.AppendResp_WrongExpectedVersion_{WrongExpectedVersion: answer}}
}

// A reader carries out one read.
type reader struct {
	node   *node
	call   streams.Streams_ReadServer
	source source
	option *streams.ReadReq_Options
	allow  func(*event) bool
	textID bool
}

// Read implements the call of that name, which subscriptions are too.
func (s *service) Read(req *streams.ReadReq, call streams.Streams_ReadServer) error {
	o := req.GetOptions()
	r := &reader{node: s.node, call: call, option: o, source: source{node: s.node}}
	if o.GetUuidOption() == nil {
		return status.Error(codes.InvalidArgument, "'uuidOption' is a required argument")
	}
	_, r.textID = o.GetUuidOption().GetContent().(*streams.ReadReq_Options_UUIDOption_String_)
	switch of := o.GetStreamOption().(type) {
	case *streams.ReadReq_Options_All:
		r.source.all = true
	case *streams.ReadReq_Options_Stream:
		r.source.stream = string(of.Stream.GetStreamIdentifier().GetStreamName())
	default:
		return status.Error(codes.InvalidArgument, "a read names what it reads")
	}
	var err error
	if r.allow, err = allowed(o.GetFilter()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := r.admit(); err != nil {
		return err
	}
	if err := s.node.cluster.strike(call.Context(), BeforeRead); err != nil {
		return err
	}
	switch {
	case o.GetSubscription() != nil:
		return r.subscribe()
	case o.GetReadDirection() == streams.ReadReq_Options_Backwards:
		return r.backwards()
	}
	return r.forwards()
}

func (r *reader) admit() error { return r.node.admit(r.call.Context(), r.call.SetTrailer) }

// errPosition is how reads refuse a position in the middle of a record.
var errPosition = status.Error(codes.Unknown, "Unexpected ReadAllResult: InvalidPosition >> Log record at that position has a wrong length.")

// forwards sends events from where the read begins, that place included.
func (r *reader) forwards() error {
	events, _ := r.source.view()
	if !r.source.all && len(events) == 0 {
		return r.missing()
	}
	i, err := r.start(events)
	if err != nil {
		return err
	}
	for left := r.option.GetCount(); left > 0; i++ {
		if i >= len(events) {
			if events, _ = r.source.view(); i >= len(events) { // servers read page by page, and see what came meanwhile
				return nil
			}
		}
		if !r.allow(events[i]) {
			continue
		}
		if err := r.send(events[i].wire(r.textID)); err != nil {
			return err
		}
		left--
	}
	return nil
}

// start returns the index at which a read forwards begins.
func (r *reader) start(events []*event) (int, error) {
	if !r.source.all {
		switch from := r.option.GetStream().GetRevisionOption().(type) {
		case *streams.ReadReq_Options_StreamOptions_Revision:
			revision, err := toInt(from.Revision)
			if err != nil {
				return 0, status.Error(codes.Unknown, err.Error())
			}
			return int(min(revision, int64(len(events)))), nil
		case *streams.ReadReq_Options_StreamOptions_End:
			return len(events), nil
		}
		return 0, nil
	}
	switch from := r.option.GetAll().GetAllOption().(type) {
	case *streams.ReadReq_Options_AllOptions_Position:
		return r.find(events, from.Position)
	case *streams.ReadReq_Options_AllOptions_End:
		return len(events), nil
	}
	return 0, nil
}

// find returns the index of the first event at or behind a position of the client.
func (r *reader) find(events []*event, p *streams.ReadReq_Options_Position) (int, error) {
	commit, err := toInt(p.GetCommitPosition())
	if err != nil || p.GetPreparePosition() > p.GetCommitPosition() {
		return 0, status.Error(codes.Unknown, "Exception was thrown by handler.")
	}
	i, at := search(events, uint64(commit)) //nolint:gosec // it was one
	switch {
	case at || commit == 0:
		return i, nil
	case i < len(events) || !r.isEnd(uint64(commit)): //nolint:gosec // it was one
		return 0, errPosition
	}
	return i, nil
}

// isEnd reports whether nothing was written at or behind position yet.
func (r *reader) isEnd(position uint64) bool {
	c := r.node.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	return position >= c.end
}

// backwards sends events down to the first. A position of $all lies between two
// events: the first one sent is before it.
func (r *reader) backwards() error {
	events, _ := r.source.view()
	if !r.source.all && len(events) == 0 {
		return r.missing()
	}
	i := -1
	if r.source.all {
		switch from := r.option.GetAll().GetAllOption().(type) {
		case *streams.ReadReq_Options_AllOptions_Position:
			at, err := r.find(events, from.Position)
			if err != nil {
				return err
			}
			i = at - 1
		case *streams.ReadReq_Options_AllOptions_End:
			i = len(events) - 1
		}
	} else {
		at, err := r.start(events)
		if err != nil {
			return err
		}
		i = min(at, len(events)-1)
	}
	for left := r.option.GetCount(); left > 0 && i >= 0; i-- {
		if !r.allow(events[i]) {
			continue
		}
		if err := r.send(events[i].wire(r.textID)); err != nil {
			return err
		}
		left--
	}
	return nil
}

func (r *reader) missing() error {
	return r.send(&streams.ReadResp{Content: &streams.ReadResp_StreamNotFound_{
		StreamNotFound: &streams.ReadResp_StreamNotFound{StreamIdentifier: r.option.GetStream().GetStreamIdentifier()},
	}})
}

// subscribe sends events from behind where the subscription begins, and then those
// to come, until the call ends or the node may not serve it any more.
func (r *reader) subscribe() error {
	events, changed := r.source.view()
	i, err := r.startBehind(events)
	if err != nil {
		return err
	}
	err = r.send(&streams.ReadResp{Content: &streams.ReadResp_Confirmation{
		Confirmation: &streams.ReadResp_SubscriptionConfirmation{SubscriptionId: uuid.NewString()},
	}})
	if err != nil {
		return err
	}
	window := checkpointWindow(r.option.GetFilter())
	considered := 0
	for live := false; ; {
		for ; i < len(events); i++ {
			e := events[i]
			if r.allow(e) {
				if err := r.send(e.wire(r.textID)); err != nil {
					return err
				}
			}
			if considered++; window > 0 && considered >= window {
				considered = 0
				if err := r.checkpoint(e); err != nil {
					return err
				}
			}
		}
		if !live {
			live = true
			if window > 0 && i > 0 {
				if err := r.checkpoint(events[i-1]); err != nil {
					return err
				}
			}
			if err := r.send(&streams.ReadResp{Content: &streams.ReadResp_CaughtUp_{CaughtUp: new(streams.ReadResp_CaughtUp)}}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-r.call.Context().Done():
			return status.FromContextError(r.call.Context().Err()).Err()
		}
		if err := r.admit(); err != nil {
			return err
		}
		events, changed = r.source.view()
	}
}

// startBehind returns the index at which a subscription begins.
func (r *reader) startBehind(events []*event) (int, error) {
	if !r.source.all {
		i, err := r.start(events)
		if _, given := r.option.GetStream().GetRevisionOption().(*streams.ReadReq_Options_StreamOptions_Revision); given && i < len(events) {
			i++
		}
		return i, err
	}
	from, given := r.option.GetAll().GetAllOption().(*streams.ReadReq_Options_AllOptions_Position)
	if !given {
		return r.start(events)
	}
	i, err := r.find(events, from.Position)
	if errors.Is(err, errPosition) {
		return 0, status.Error(codes.InvalidArgument, "Trying to read from an invalid position.")
	}
	if err == nil && i < len(events) && events[i].position == from.Position.GetCommitPosition() {
		i++
	}
	return i, err
}

// checkpointWindow is after how many events a subscription with a filter tells its
// place; 0 for one without.
func checkpointWindow(f *streams.ReadReq_Options_FilterOptions) int {
	if f == nil {
		return 0
	}
	const defaultWindow = 32
	window := defaultWindow
	if f.GetMax() > 0 {
		window = int(f.GetMax())
	}
	return window * max(int(f.GetCheckpointIntervalMultiplier()), 1)
}

func (r *reader) checkpoint(e *event) error {
	return r.send(&streams.ReadResp{Content: &streams.ReadResp_Checkpoint_{
		Checkpoint: &streams.ReadResp_Checkpoint{CommitPosition: e.position, PreparePosition: e.position},
	}})
}

// send sends one answer, as rewritten.
func (r *reader) send(answer *streams.ReadResp) error {
	c := r.node.cluster
	if answer.GetEvent() != nil {
		if err := c.strike(r.call.Context(), BeforeEvent); err != nil {
			return err
		}
	}
	c.mu.Lock()
	rewrite := c.rewrite
	c.mu.Unlock()
	if rewrite != nil {
		answer = proto.CloneOf(answer) // what is stored stays as it is
		rewrite(answer)
	}
	return r.call.Send(answer)
}

// allowed returns which events a filter lets through.
func allowed(f *streams.ReadReq_Options_FilterOptions) (func(*event) bool, error) {
	if f == nil {
		return func(*event) bool { return true }, nil
	}
	expression, subject := f.GetEventType(), func(e *event) string { return e.metadata["type"] }
	if f.GetStreamIdentifier() != nil {
		expression, subject = f.GetStreamIdentifier(), func(e *event) string { return e.stream }
	}
	if pattern := expression.GetRegex(); pattern != "" {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
		return func(e *event) bool { return re.MatchString(subject(e)) }, nil
	}
	return func(e *event) bool {
		for _, prefix := range expression.GetPrefix() {
			if strings.HasPrefix(subject(e), prefix) {
				return true
			}
		}
		return false
	}, nil
}

// members answers gossip.
type members struct {
	gossip.UnimplementedGossipServer

	node *node
}

// Read implements the call of that name.
func (m *members) Read(ctx context.Context, _ *shared.Empty) (*gossip.ClusterInfo, error) {
	c := m.node.cluster
	if err := c.strike(ctx, BeforeConnect); err != nil {
		return nil, err
	}
	c.mu.Lock()
	leader := c.leader
	c.mu.Unlock()
	info := new(gossip.ClusterInfo)
	for _, n := range c.nodes {
		state := gossip.MemberInfo_Follower
		switch leader {
		case -1:
			state = gossip.MemberInfo_Unknown
		case n.index:
			state = gossip.MemberInfo_Leader
		}
		host, port := n.address()
		info.Members = append(info.Members, &gossip.MemberInfo{
			State: state, IsAlive: n.isUp(), HttpEndPoint: &gossip.EndPoint{Address: host, Port: uint32(port)}, //nolint:gosec // a port
		})
	}
	return info, nil
}

var (
	_ streams.StreamsServer               = (*service)(nil)
	_ serverfeatures.ServerFeaturesServer = (*service)(nil)
	_ gossip.GossipServer                 = (*members)(nil)
)
