package kurrentdb_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/domain"
)

func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"esdb://localhost",
		"esdb://localhost:2113/?tls=false",
		"esdb://admin:change%40it@one:2113,two:2113,three:2113?keepAliveInterval=10000&keepAliveTimeout=10000",
		"esdb+discover://user:password@cluster.example?tlsVerifyCert=true&gossipTimeout=5",
		"esdb://localhost?NODEPREFERENCE=leader",
	} {
		log, err := kurrentdb.New(good, kurrentdb.Options{Now: time.Now})
		if err != nil {
			t.Errorf("New(%q): %v", good, err)
			continue
		}
		log.Close()
	}
}

// What the library takes without a word, and what comes of it, or refuses in words
// that may hold a password.
func TestRefusedConnectionStrings(t *testing.T) {
	t.Parallel()
	noCertificate := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noCertificate, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		in     string
		passed bool // by the library
		want   string
	}{
		{"esdb://localhost?defaultDeadline=abc", true, "defaultDeadline"},                 // every call fails at once
		{"esdb://localhost?gossipTimeout=5000", true, "in seconds"},                       // for more than an hour
		{"esdb://localhost?gossipTimeout=0", true, "in seconds"},                          // never connects
		{"esdb://localhost?keepAliveInterval=10", true, "in milliseconds"},                // is cut off by servers
		{"esdb://admin:s3cret@localhost?tls=false", true, "would not be sent"},            // connects as nobody
		{"esdb://admin@localhost", true, "no password"},                                   // the same
		{"esdb://localhost?tlsVerifyCerts=false", true, "unknown"},                        // is passed over
		{"esdb://localhost?tls=false;x=1", true, "of the form"},                           // the same
		{"esdb://localhost?tls=true&tls=false", true, "twice"},                            // the first counts
		{"esdb://localhost?tls=true&TLS=false", true, "twice"},                            // either counts
		{"esdb://localhost?userCertFile=", true, "empty"},                                 //
		{"esdb://localhost?nodePreference=follower", true, "leave out nodePreference"},    // reads what was true once
		{"esdb://localhost?maxDiscoverAttempts=0", true, "leave out maxDiscoverAttempts"}, // never connects
		{"esdb://localhost?discoveryInterval=0", true, "leave out discoveryInterval"},     //
		{"esdb://localhost:70000", true, "between 1 and 65535"},                           // is port 4464
		{"esdb://localhost:0", true, "between 1 and 65535"},                               //
		{"esdb://one,two:99999,three", true, "between 1 and 65535"},                       //
		{"esdb://localhost#?tls=false", true, "%23"},                                      // loses its settings
		{"esdb://localhost?userCertFile=a.crt", true, "userKeyFile"},                      //
		{"kurrentdb://localhost", false, "begin with esdb://"},
		{"postgres://localhost", false, "begin with esdb://"},
		{"localhost:2113", false, "begin with esdb://"},
		{"", false, "begin with esdb://"},
		{"esdb://", false, "host is missing"},
		{"esdb://one,,three", false, "host is missing"},
		{"esdb://[::1]:2113", false, "IPv6"},
		{"esdb://one:2113/path", false, "port"},
		{"esdb://one/path", false, "path"},
		{"esdb://admin:s3cret%@localhost", false, "of the form"},
		{"esdb://localhost?tls=perhaps", false, "tls"},
		{"esdb://localhost?tlsCAFile=" + noCertificate, false, "certificate"},
	} {
		_, err := esdb.ParseConnectionString(tt.in)
		if tt.passed && err != nil {
			t.Errorf("the library refuses %q: %v", tt.in, err)
		}
		log, err := kurrentdb.New(tt.in, kurrentdb.Options{Now: time.Now})
		if err == nil {
			log.Close()
		}
		if !errors.Is(err, domain.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("New(%q): %v, want ErrInvalid that speaks of %q", tt.in, err, tt.want)
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]kurrentdb.Options{
		"no clock":                 {},
		"prefix of the server":     {Now: time.Now, Prefix: "$mystery-"},
		"prefix that is not UTF-8": {Now: time.Now, Prefix: "mystery\xff"},
	} {
		if log, err := kurrentdb.New("esdb://localhost", o); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: New gives %v, %v, want ErrInvalid", name, log, err)
		}
	}
}
