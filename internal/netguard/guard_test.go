package netguard

import (
	"net/netip"
	"testing"
)

func TestGuardKnowsSpecialAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "0.0.0.0": false,
		"100.64.0.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fc00::1": false, "ff02::1": false, "::ffff:10.0.0.1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "fe80::1%eth0": false,
		"64:ff9b:1::1": false, "100::1": false, "fec0::1": false, "::127.0.0.1": false, "::ffff:0:127.0.0.1": false, "4000::1": false,
		"192.88.99.1": false, "2606:4700::1111": true,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("public(%s) = %v", address, got)
		}
		if err := guard("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 80).String(), nil); (err == nil) != want {
			t.Errorf("guard(%s) = %v", address, err)
		}
	}
	if guard("tcp", "nonsense", nil) == nil {
		t.Error("an invalid address was accepted")
	}
}
