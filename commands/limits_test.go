package commands_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
)

func TestQuotas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ client, network string }{
		{"192.0.2.7", "192.0.2.7"},
		{"::ffff:192.0.2.7", "192.0.2.7"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"2001:db8:1:2::1", "2001:db8:1:2::/64"},
		{"2001:db8:1:3::1", "2001:db8:1:3::/64"},
		{"fe80::1%eth0", "fe80::/64"},
		{"", "invalid IP"},
	} {
		client, _ := netip.ParseAddr(tt.client)
		want := []commands.Quota{
			{Name: "grant-agent", Key: tt.network + " build:42", Limit: 5, Window: time.Hour},
			{Name: "grant-address", Key: tt.network, Limit: 20, Window: time.Hour},
		}
		if diff := cmp.Diff(want, commands.GrantQuotas("build:42", client)); diff != "" {
			t.Errorf("GrantQuotas(%s) (-want +got):\n%s", tt.client, diff)
		}
		want = []commands.Quota{{Name: "revoke-address", Key: tt.network, Limit: 20, Window: time.Hour}}
		if diff := cmp.Diff(want, commands.RevokeQuotas(client)); diff != "" {
			t.Errorf("RevokeQuotas(%s) (-want +got):\n%s", tt.client, diff)
		}
	}
}
