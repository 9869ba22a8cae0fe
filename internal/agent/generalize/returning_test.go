package generalize

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

const (
	donorUUID = "8A1B2C3D-0000-4000-8000-00000000000A"
	uuidPath  = "sys/class/dmi/id/product_uuid"
	script    = "Microsoft.Azure.Extensions.CustomScript-2.1.10"
)

// withExtensions returns the agent's files about extensions of a node.
func withExtensions() map[string]string {
	return map[string]string{
		uuidPath:                               donorUUID + "\n",
		"var/lib/waagent/" + script + "/mrseq": "3",
		"var/lib/waagent/" + script + "/config/3.settings":                                "protected",
		"var/lib/waagent/" + script + "/bin/custom-script":                                "program",
		"var/lib/waagent/Microsoft.CPlat.Core.RunCommandHandlerLinux-1.3.5/one.mrseq":     "0",
		"var/lib/waagent/Publisher.Liar-1.0/mrseq":                                        "hunter2 is no number",
		"var/lib/waagent/Publisher.Long-1.0/mrseq":                                        strings.Repeat("1", 64),
		"var/lib/waagent/Microsoft.Azure.AzureDefenderForServers.MDE.Linux-1.0.9.6/mrseq": "7",
		"etc/opt/microsoft/mdatp/mdatp_onboard.json":                                      "{}",
	}
}

// boot runs the first-boot unit on a machine with the given UUID.
func boot(t *testing.T, dir, uuid string) {
	t.Helper()
	writeFile(t, dir, uuidPath, uuid+"\n")
	unit := readFile(t, dir, "etc/systemd/system/kamino-first-boot.service")
	if !strings.Contains(unit, "ExecStart=-/bin/sh /etc/kamino/returning.sh\n") {
		t.Fatalf("the unit does not run the script:\n%s", unit)
	}
	out, err := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(dir, "etc/kamino/returning.sh"), dir).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
}

// agentState returns the files of the agent.
func agentState(t *testing.T, dir string) map[string]string {
	t.Helper()
	state := map[string]string{}
	for name, content := range snapshot(t, dir) {
		if strings.HasPrefix(name, "var/lib/waagent/") && strings.HasPrefix(content, "-") {
			state[strings.TrimPrefix(name, "var/lib/waagent/")] = content[len("-rw------- "):]
		}
	}
	return state
}

func TestReturnedDonorSkipsExtensions(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	dir := plant(t, node, withExtensions())
	r := runner(p)
	if r.Returning = MachineKey(open(t, dir)); len(r.Returning) != 64 {
		t.Fatalf("the machine has the key %q", r.Returning)
	}
	m, err := run(t, dir, r)
	must(t, err)
	if got := agentState(t, dir); len(got) > 0 {
		t.Errorf("in the image is still %v", got)
	}
	want := "machine " + r.Returning + "\n3 /var/lib/waagent/" + script + "/mrseq\n0 /var/lib/waagent/Microsoft.CPlat.Core.RunCommandHandlerLinux-1.3.5/one.mrseq\n"
	if diff := cmp.Diff(want, readFile(t, dir, ReturningPath)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if m.Returning == nil || len(m.Returning.Sequences) != 2 {
		t.Errorf("the manifest has %+v", m.Returning)
	}
	clone := t.TempDir()
	must(t, os.CopyFS(clone, os.DirFS(dir)))

	boot(t, dir, donorUUID)
	back := map[string]string{script + "/mrseq": "3", "Microsoft.CPlat.Core.RunCommandHandlerLinux-1.3.5/one.mrseq": "0"}
	if diff := cmp.Diff(back, agentState(t, dir)); diff != "" {
		t.Errorf("the donor comes back with (-want +got):\n%s", diff)
	}
	boot(t, clone, "8a1b2c3d-0000-4000-8000-00000000000b")
	if got := agentState(t, clone); len(got) > 0 {
		t.Errorf("a clone takes its donor's %v", got)
	}
	for _, d := range []string{dir, clone} {
		if exists(d, ReturningPath) {
			t.Errorf("%s outlives the first boot", ReturningPath)
		}
	}
}

// TestOnlyReturnedDonor: a run without a return writes no state for a return and removes older state.
func TestOnlyReturnedDonor(t *testing.T) {
	dir := plant(t, node, withExtensions(), map[string]string{ReturningPath[1:]: "machine 00\n0 /var/lib/waagent/x/mrseq\n"})
	m, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	if m.Returning != nil || exists(dir, ReturningPath) {
		t.Errorf("kept %+v", m.Returning)
	}
}

// TestFailedRunReturnsDonor: the state for the return exists before the first removal.
func TestFailedRunReturnsDonor(t *testing.T) {
	dir := plant(t, node, withExtensions(), map[string]string{"root/key.pem": "-> /nowhere", "etc/leaked.pem": pemKey(t)})
	r := runner(load(t, v1alpha1.ProfileStatic))
	r.Returning = MachineKey(open(t, dir))
	_, err := run(t, dir, r)
	_ = unmetOf(t, err)
	boot(t, dir, donorUUID)
	if got := agentState(t, dir)[script+"/mrseq"]; got != "3" {
		t.Errorf("the sequence number is %q", got)
	}
}

func TestMachineKey(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string]string
		known bool
	}{
		{"a machine", map[string]string{uuidPath: donorUUID + "\n"}, true},
		{"no firmware", map[string]string{}, false},
		{"a container", map[string]string{uuidPath: donorUUID, "run/systemd/container": "systemd-nspawn\n"}, false},
		{"firmware without a UUID", map[string]string{uuidPath: "00000000-0000-0000-0000-000000000000"}, false},
		{"the same with ones", map[string]string{uuidPath: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"}, false},
		{"no UUID", map[string]string{uuidPath: "Not Settable"}, false},
	} {
		if key := MachineKey(open(t, plant(t, c.files))); (key != "") != c.known {
			t.Errorf("%s has the key %q", c.what, key)
		}
	}
}

// TestReturningScript: the disk with the file may have been changed by an attacker.
func TestReturningScript(t *testing.T) {
	dir := plant(t, map[string]string{"etc/systemd/system/kamino-first-boot.service": "ExecStart=-/bin/sh /etc/kamino/returning.sh\n", uuidPath: donorUUID})
	for i := range load(t, v1alpha1.ProfileStatic).Rules {
		if rule := load(t, v1alpha1.ProfileStatic).Rules[i]; rule.ID == "returning-script" {
			writeFile(t, dir, "etc/kamino/returning.sh", string(rule.Installed.Content))
		}
	}
	writeFile(t, dir, "var/lib/waagent/new/mrseq", "9")
	writeFile(t, dir, ReturningPath[1:], fmt.Sprintf("machine %s\n1 /var/lib/waagent/../../../etc/mrseq\n2 /etc/mrseq\n3 /var/lib/waagent/new/mrseq\n4 /var/lib/waagent/x/passwd\n",
		MachineKey(open(t, dir))))
	boot(t, dir, donorUUID)
	if got := agentState(t, dir); exists(dir, "etc/mrseq") || len(got) != 1 || got["new/mrseq"] != "9" {
		t.Errorf("written: %v", got)
	}
}
