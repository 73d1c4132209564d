package kurrentdb

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/domain"
)

// The settings of a connection string, by their names in lower case.
var (
	// known are those that it may have.
	known = map[string]bool{
		"tls": true, "tlscafile": true, "tlsverifycert": true, "usercertfile": true, "userkeyfile": true,
		"keepaliveinterval": true, "keepalivetimeout": true, "gossiptimeout": true, "nodepreference": true,
	}
	// ours are those that this package sets itself.
	ours = map[string]bool{"maxdiscoverattempts": true, "discoveryinterval": true, "defaultdeadline": true}
)

// maxGossipTimeout bounds a setting that is in seconds, and often taken for
// milliseconds as the others are.
const maxGossipTimeout = 60

// minKeepAlive is how often, in milliseconds, servers let clients ask whether they
// are there.
const minKeepAlive = 10000

// parse reads a connection string as the library does, but refuses what the library
// passes over or misunderstands. No error quotes it: it may hold a password.
func parse(connection string) (*esdb.Configuration, error) {
	fail := func(format string, args ...any) (*esdb.Configuration, error) {
		return nil, fmt.Errorf("connection string of EventStoreDB: %s: %w", fmt.Sprintf(format, args...), domain.ErrInvalid)
	}
	scheme, rest, _ := strings.Cut(connection, "://")
	if scheme != "esdb" && scheme != "esdb+discover" {
		return fail("it must begin with esdb:// or esdb+discover://, also for KurrentDB")
	}
	if strings.Contains(rest, "#") {
		return fail("write # as %%23")
	}
	authority, query, _ := strings.Cut(rest, "?")
	if why := checkHosts(authority); why != "" {
		return fail("%s", why)
	}
	settings, err := url.ParseQuery(query)
	if err != nil {
		return fail("its settings are not of the form name=value&name=value")
	}
	seen := make(map[string]string)
	for name, values := range settings {
		switch key := strings.ToLower(name); {
		case ours[key]:
			return fail("leave out %s, which the service sets itself", name)
		case !known[key]:
			return fail("the setting %q is unknown", name)
		case seen[key] != "" || len(values) > 1:
			return fail("%s is there twice", name)
		case values[0] == "":
			return fail("%s is empty", name)
		default:
			seen[key] = values[0]
		}
	}
	if n, err := strconv.Atoi(seen["gossiptimeout"]); seen["gossiptimeout"] != "" && (err != nil || n < 1 || n > maxGossipTimeout) {
		return fail("gossipTimeout is in seconds, from 1 to %d", maxGossipTimeout)
	}
	if n, err := strconv.Atoi(seen["keepaliveinterval"]); seen["keepaliveinterval"] != "" && (err != nil || n != -1 && n < minKeepAlive) {
		return fail("keepAliveInterval is in milliseconds, from %d up, or -1 for never", minKeepAlive)
	}
	config, err := esdb.ParseConnectionString(connection)
	if err != nil {
		if e := new(url.Error); errors.As(err, &e) {
			return fail("it is not of the form esdb://user:password@host:port,host:port?name=value")
		}
		return fail("%v", err)
	}
	switch {
	case config.NodePreference != esdb.NodePreferenceLeader:
		return fail("leave out nodePreference: only the leader knows all that was acknowledged")
	case config.DisableTLS && config.Username != "":
		return fail("with tls=false the user and the password would not be sent; leave them out or use TLS")
	case config.Username != "" && config.Password == "":
		return fail("the user has no password")
	}
	if err := config.Validate(); err != nil {
		return fail("%v", err)
	}
	// One attempt asks every node once. A client that finds none is dropped, and the
	// next call has a new one: see pool.
	config.MaxDiscoverAttempts, config.DiscoveryInterval = 1, 1
	config.Logger = esdb.NoopLogging()
	return config, nil
}

// checkHosts returns what is wrong with the hosts of a connection string.
func checkHosts(authority string) string {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(authority, "/"), ",") {
		name, port, given := strings.Cut(host, ":")
		switch n, err := strconv.ParseUint(port, 10, 16); {
		case name == "":
			return "a host is missing"
		case strings.Contains(port, ":"):
			return "an IPv6 address needs a name: the client takes none"
		case given && (err != nil || n == 0):
			return "a port is not between 1 and 65535"
		}
	}
	return ""
}
