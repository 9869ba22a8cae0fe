package generalize

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
)

// uuid returns a random UUID.
func (n needles) uuid() string {
	return n.hex(8) + "-" + n.hex(4) + "-4" + n.hex(3) + "-8" + n.hex(3) + "-" + n.hex(12)
}

// identityFiles are 35 files with the identity of an agent or a disk, as public reports of cloned nodes show them.
func identityFiles(n needles) map[string]string {
	binary := func(size int) string { return string([]byte{0, 1}) + n.letters(size) }
	files := map[string]string{
		"var/lib/dynatrace/oneagent/agent/config/ruxithost.id":                                "0x" + n.hex(16),
		"var/lib/netdata/registry/netdata.public.unique.id":                                   n.uuid(),
		"var/lib/netdata/cloud.d/claimed_id":                                                  n.uuid(),
		"opt/orbit/identifier":                                                                n.uuid(),
		"opt/orbit/secret-orbit-node-key.txt":                                                 n.letters(30) + "a1Z",
		"opt/rapid7/ir_agent/components/bootstrap/common/bootstrap.cfg":                       "agent-id=" + n.hex(32),
		"opt/Tanium/TaniumClient/TaniumClient.ini":                                            "ComputerID=" + n.random("123456789", 10),
		"var/opt/ds_agent/dsa_core/ds_agent.config":                                           "hostGUID=" + n.uuid(),
		"var/opt/azcmagent/agentconfig.json":                                                  `{"resourceName":"x","vmId":"` + n.uuid() + `"}`,
		"var/opt/BESClient/besclient.config":                                                  "[Software\\BigFix]\nComputerID = " + n.random("123456789", 10),
		"opt/illumio_ven_data/etc/agentid":                                                    n.uuid(),
		"var/lib/lacework/config/hostid":                                                      n.uuid(),
		"opt/sophos-spl/base/etc/mcs.config":                                                  "MCSID=" + n.uuid(),
		"var/lib/snapd/state.json":                                                            `{"data":{"auth":{"device":{"brand":"generic","serial":"` + n.uuid() + `"}}}}`,
		"var/lib/checkmk-agent/registered_connections.json":                                   `{"connections":{"h/site":{"uuid":"` + n.uuid() + `"}}}`,
		"etc/machine_uuid":                                                                    n.uuid(),
		"var/lib/newrelic-infra/newrelic-integrations/id":                                     n.uuid(),
		"opt/sentinelone/configuration/basic.conf":                                            `{"mgmt_agent_uuid":"` + n.uuid() + `"}`,
		"var/lib/osqueryd/uuid":                                                               n.uuid(),
		"etc/hostid":                                                                          n.hex(4),
		"opt/Elastic/Agent/fleet.enc":                                                         binary(700),
		"opt/Elastic/Agent/data/elastic-agent-8.17.0-a1b2c3/state.enc":                        binary(500),
		"opt/Elastic/Agent/data/elastic-agent-8.17.0-a1b2c3/state.yml":                        "agent: {id: " + n.uuid() + "}",
		"opt/Elastic/Endpoint/state/identity.dat":                                             binary(400),
		"opt/Elastic/Agent/data/elastic-agent-8.17.0-a1b2c3/run/filestream-default/meta.json": `{"uuid":"` + n.uuid() + `"}`,
		"var/lib/longhorn/longhorn-disk.cfg":                                                  `{"diskName":"default-disk-` + n.hex(16) + `","diskUUID":"` + n.uuid() + `"}`,
		"var/lib/zerotier-one/identity.secret":                                                n.hex(10) + ":0:" + n.hex(128) + ":" + n.hex(128),
		"var/lib/zerotier-one/identity.public":                                                n.hex(10) + ":0:" + n.hex(128),
		"var/lib/zerotier-one/authtoken.secret":                                               n.lower(24),
		"var/lib/weave/weave-netdata.db":                                                      binary(3000),
	}
	for _, beat := range []string{"heartbeat", "auditbeat", "packetbeat", "journalbeat", "filebeat"} {
		files["var/lib/"+beat+"/meta.json"] = `{"uuid":"` + n.uuid() + `"}`
	}
	return files
}

// machineIDPlaces are 13 places with the machine ID.
func machineIDPlaces(id string) map[string]string {
	dashed := id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
	return map[string]string{
		"opt/a/plain": id, "opt/a/quoted": `{"x":"` + id + `"}`, "opt/a/dashed": `{"x":"` + dashed + `"}`, "opt/a/upper": `{"x":"` + strings.ToUpper(id) + `"}`,
		"opt/a/version": id + "-6.1.112", "opt/a/after": "node-" + id, "opt/a/prefix": "a-" + id, "opt/a/n-" + id: "x", "opt/a/" + id + ".conf": "x", "opt/a/" + id + "-6.1.conf": "x",
		"opt/acme/state.json": `{"machine":"` + dashed + `"}`, "opt/acme/state2.json": `{"machine":"` + strings.ToUpper(dashed) + `"}`,
		"boot/initramfs-5.14.img": gzipped("etc/machine-id\x00" + id + "\n"),
	}
}

// agentKeys are 9 keys and tokens of agents.
func agentKeys(n needles) map[string]string {
	return map[string]string{
		"etc/netbird/config.json":                             `{"PrivateKey": "` + n.base64(32) + `"}`,
		"var/lib/netbird/default.json":                        `{"PrivateKey": "` + n.base64(32) + `"}`,
		"var/lib/kilo/key":                                    n.base64(32),
		"var/lib/ubuntu-advantage/private/machine-token.json": `{"machineToken":"M1` + n.letters(28) + `"}`,
		"etc/apt/auth.conf.d/90ubuntu-advantage":              "machine esm.example/infra/ login bearer password " + n.letters(30) + "\n",
		"etc/apt/auth.conf.d/91ubuntu-advantage":              "machine esm.example/apps/ login bearer password " + n.letters(30) + "\n",
		"var/snap/canonical-livepatch/common/config":          "machine-token: " + n.hex(40) + "\n",
		"var/lib/zerotier-one/authtoken.secret":               n.lower(24),
		"opt/orbit/secret-orbit-node-key.txt":                 n.letters(30) + "a1Z",
	}
}

// TestNets measures the search without the catalogue of agents, then with a comparison of two machines, then with the
// catalogue. docs/reference/verification.md has the figures.
func TestNets(t *testing.T) {
	n, p := needles{t}, load(t, v1alpha1.ProfileStatic)
	base, owner := Base(p), Owner(p)
	hashes := func(name, content string) string {
		found, err := scan.Hashes(t.Context(), plant(t, map[string]string{name: content}), base, nil)
		must(t, err)
		return found["/"+name]
	}
	for what, test := range map[string]struct {
		files, other map[string]string
		want         [3]int
	}{
		"identities":      {identityFiles(n), identityFiles(n), [3]int{32, 34, 35}},
		"machine ID":      {machineIDPlaces(donorID), nil, [3]int{13, 13, 13}},
		"keys and tokens": {agentKeys(n), agentKeys(n), [3]int{9, 9, 9}},
	} {
		var got [3]int
		for name, content := range test.files {
			report, err := scan.Tree(t.Context(), plant(t, map[string]string{name: content}), scan.Options{
				Identities: []scan.Value{{Path: "/etc/machine-id", SHA256: hash([]byte(donorID + "\n")), Bytes: int64(len(donorID) + 1)}}, Base: base,
			})
			must(t, err)
			seen := report.Possible.Count+report.Count > 0
			differs := test.other != nil && hashes(name, content) != hashes(name, test.other[name])
			for i, found := range []bool{seen, seen || differs, seen || differs || owner("/"+name).Rule != ""} {
				if found {
					got[i]++
				}
			}
			if !seen {
				t.Logf("%s: %s: another content on another machine: %t; rule %q", what, name, differs, owner("/"+name).Rule)
			}
		}
		if got != test.want {
			t.Errorf("%s: of %d files the nets find %v, want %v", what, len(test.files), got, test.want)
		}
	}
}
