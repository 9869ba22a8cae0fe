//go:build machines

package real

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// patchPod is the container of the pod that carries out an order for patches, with the machine's root at /host.
const patchPod = `set -eu
host=/run/kamino-pod/host
mkdir -p "$host"
mount --make-rprivate /
mount --rbind / "$host"
exec /mnt/kamino-node patch --root "$host" --order "$ORDER" --order-uid "$ORDER_UID" --key-file /mnt/key --pod-uid-file /mnt/pod-uid --token-file /mnt/token --ca-file /mnt/ca.crt
`

// patching is a machine with a repository of its own, and the orders for it.
type patching struct {
	lab     *lab
	machine *machine
	repo    *aptRepository
	orders  int
}

// ask creates an order, and returns its UID.
func (p *patching) ask(t *testing.T, method v1alpha1.OrderMethod, change func(o *v1alpha1.OrderPatches)) types.UID {
	t.Helper()
	bootID := p.machine.sh(t, "cat /proc/sys/kernel/random/boot_id")
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		t.Fatal(err)
	}
	p.orders++
	uid := types.UID(fmt.Sprintf("5b1f0a44-0000-4000-8000-%012d", p.orders))
	o := &v1alpha1.NodeOrder{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: orderName, UID: uid},
		Spec: v1alpha1.NodeOrderSpec{
			Holder: v1alpha1.Holder{Name: prototype, UID: prototypeUID}, NodeName: p.machine.name, Method: method, Token: bootID, PodName: orderName, Key: public,
		},
	}
	if method != v1alpha1.OrderReboot {
		o.Spec.Patch = &v1alpha1.OrderPatches{Patches: v1alpha1.PatchAll, Hold: patch.DefaultHold(), Drained: true}
		if change != nil {
			change(o.Spec.Patch)
		}
	}
	api := p.lab.api
	api.mu.Lock()
	api.signer, api.object = private, o
	api.mu.Unlock()
	for name, content := range map[string]string{
		"patch-pod.sh": patchPod, "token": api.token, "key": string(private), "pod-uid": podUID, "ca.crt": string(api.ca),
	} {
		write(t, filepath.Join(p.lab.media, name), content, 0o600)
	}
	return uid
}

// command is the pod's command on the machine.
func (p *patching) command(uid types.UID) string {
	return "exec env " + strings.Join([]string{
		"ORDER=" + v1alpha1.DefaultNamespace + "/" + orderName, "ORDER_UID=" + string(uid),
		"KUBERNETES_SERVICE_HOST=" + p.lab.address, "KUBERNETES_SERVICE_PORT=" + p.lab.api.port,
	}, " ") + " unshare --mount sh /mnt/patch-pod.sh"
}

// report returns the signed report of the current order.
func (p *patching) report(t *testing.T) *patch.Report {
	t.Helper()
	api := p.lab.api
	api.mu.Lock()
	defer api.mu.Unlock()
	signed, err := v1alpha1.ReportOf(api.object, v1alpha1.OrderRecord{UID: api.object.UID, Key: api.object.Spec.Key, Pod: podUID})
	if err != nil || signed == nil {
		t.Fatalf("no signed report: %v", err)
	}
	r, err := patch.Decode(signed.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Answers(patch.OrderOf(api.object.Spec)); err != nil {
		t.Errorf("the report does not answer the order: %v", err)
	}
	return r
}

// order runs a pod with an order to its end.
func (p *patching) order(t *testing.T, method v1alpha1.OrderMethod, change func(o *v1alpha1.OrderPatches)) *patch.Report {
	t.Helper()
	uid := p.ask(t, method, change)
	begun := time.Now()
	out, err := p.machine.try(p.command(uid))
	if err != nil {
		t.Fatalf("the pod failed: %v\n%s", err, out)
	}
	r := p.report(t)
	t.Logf("%s, %.1f s:\n%s", method, time.Since(begun).Seconds(), out)
	return r
}

func (p *patching) version(t *testing.T, name string) string {
	t.Helper()
	return p.machine.sh(t, "dpkg-query -W -f '${Version}' "+name)
}

// names of changes.
func names(changes []patch.Change) (all []string) {
	for _, c := range changes {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

func isFailure(t *testing.T, r *patch.Report, reason patch.Reason, says ...string) {
	t.Helper()
	if r.Failure == nil || r.Failure.Reason != reason || r.Complete() {
		t.Errorf("failure %+v, want %s", r.Failure, reason)
		return
	}
	for _, text := range says {
		if !strings.Contains(r.Failure.Message, text) {
			t.Errorf("%q does not say %q", r.Failure.Message, text)
		}
	}
}

func isComplete(t *testing.T, r *patch.Report, installed ...string) {
	t.Helper()
	if !r.Complete() || r.Health != patch.Healthy || !slices.Equal(names(r.Installed), installed) || len(r.Pending) > 0 {
		t.Errorf("not complete: %+v, %+v", r.Failure, r)
	}
	if (r.Before == r.After) != (len(installed) == 0) {
		t.Errorf("the level is %s, and was %s", r.After, r.Before)
	}
}

// publishAll publishes both suites by the right key.
func (p *patching) publishAll(t *testing.T) {
	t.Helper()
	for _, suite := range []string{suiteStable, suiteSecurity} {
		p.repo.publish(t, suite, "good", 24*time.Hour)
	}
}

// TestPatch carries out orders with Debian's own apt on a machine with systemd. Every row is a trouble that users of other
// tools report, and the sentence about it.
func TestPatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes four minutes")
	}
	l := newLab(t)
	p := &patching{lab: l, repo: l.serveApt(t)}
	p.machine = l.boot(t, "node", l.platformImage(t, disk.Static), "")
	p.repo.use(t, p.machine)
	for _, name := range []string{"tool-a", "tool-b", "kubelet", "containerd.io", "settings"} {
		p.repo.add(t, suiteStable, aptPackage{name: name, version: "1.0", files: map[string]string{"etc/" + name + ".conf": "first\n"}, conffiles: []string{"/etc/" + name + ".conf"}})
	}
	p.publishAll(t)
	p.machine.sh(t, "apt-get update -q && apt-get install -q -y tool-a tool-b kubelet containerd.io settings && systemctl stop apt-daily.timer")
	l.lap("the machine has its packages")
	for _, test := range []struct {
		name string
		run  func(*patching, *testing.T)
	}{
		{"nothing pending", (*patching).testNothing},
		{"repositories", (*patching).testRepositories},
		{"check", (*patching).testCheck},
		{"download", (*patching).testDownload},
		{"patch", (*patching).testPatch},
		{"held", (*patching).testHeld},
		{"lock", (*patching).testLock},
		{"space", (*patching).testSpace},
		{"killed pod", (*patching).testKilledPod},
		{"script", (*patching).testScript},
		{"interrupted", (*patching).testInterrupted},
		{"kernels", (*patching).testKernels},
		{"reboot", (*patching).testReboot},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(p, t) })
		l.lap(test.name)
	}
}

func (p *patching) testNothing(t *testing.T) {
	r := p.order(t, v1alpha1.OrderCheck, nil)
	isComplete(t, r)
	if r.Manager != patch.APT || r.OS != "debian 12" || len(r.Repositories) != 2 || r.Repositories[0].Date.IsZero() || r.Reboot.Need != patch.NotNeeded {
		t.Errorf("%+v", r)
	}
	if !slices.Contains(r.OtherPatchers, "apt-daily-upgrade.timer") {
		t.Errorf("the other patchers are %v", r.OtherPatchers)
	}
}

// testRepositories: "could not check" is never "nothing to patch".
func (p *patching) testRepositories(t *testing.T) {
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-a", version: "2.0"})
	p.publishAll(t)
	check := func(t *testing.T) *patch.Report {
		t.Helper()
		r := p.order(t, v1alpha1.OrderCheck, nil)
		if len(r.Pending) > 0 || r.Before != r.After {
			t.Errorf("a check with an unread repository has a result: %+v", r)
		}
		return r
	}
	unread := func(t *testing.T, r *patch.Report, problem string) {
		t.Helper()
		for _, repository := range r.Repositories {
			if !repository.Read && strings.Contains(repository.Problem, problem) {
				return
			}
		}
		t.Errorf("no repository has the problem %q: %+v", problem, r.Repositories)
	}
	for _, test := range []struct {
		trouble       aptTrouble
		says, problem string
	}{
		{stopped, "Failed to fetch " + p.repo.url + "/dists/stable/InRelease", ""},
		{stalled, "Connection timed out", "Connection timed out"},
		{truncated, "File has unexpected size", "File has unexpected size"},
	} {
		t.Run(string(test.trouble), func(t *testing.T) {
			// Otherwise an index from the disk is confirmed, and not read again.
			p.machine.sh(t, "rm -rf /var/lib/apt/lists/*")
			p.repo.fail(test.trouble)
			r := check(t)
			p.repo.fail(noTrouble)
			isFailure(t, r, patch.RepositoryNotRead, "apt cannot read the repositories (exit code 100)", test.says)
			unread(t, r, test.problem)
		})
	}
	t.Run("signed by another key", func(t *testing.T) {
		p.repo.publish(t, suiteSecurity, "other", 24*time.Hour)
		r := check(t)
		isFailure(t, r, patch.RepositoryNotTrusted, "NO_PUBKEY")
		unread(t, r, "NO_PUBKEY")
		if !r.Repositories[0].Read {
			t.Errorf("the other repository was read: %+v", r.Repositories)
		}
	})
	t.Run("expired", func(t *testing.T) {
		p.repo.publish(t, suiteSecurity, "good", -72*time.Hour)
		r := check(t)
		isFailure(t, r, patch.RepositoryExpired, "is expired (invalid since 3d")
		// apt accepts an expired repository that the administrator has exempted. Kamino does not.
		p.machine.sh(t, "sed -i 's/signed-by/check-valid-until=no signed-by/' /etc/apt/sources.list")
		defer p.repo.use(t, p.machine)
		r = check(t)
		isFailure(t, r, patch.RepositoryExpired, "is stale: its index was valid until ")
	})
	t.Run("no security suite", func(t *testing.T) {
		p.machine.sh(t, "rm -rf /var/lib/apt/lists/* && sed -i /security/d /etc/apt/sources.list")
		defer p.repo.use(t, p.machine)
		r := p.order(t, v1alpha1.OrderCheck, func(o *v1alpha1.OrderPatches) { o.Patches = v1alpha1.PatchSecurity })
		isFailure(t, r, patch.RepositoryNotRead, "such a release is not available in the sources")
	})
	t.Run("no repository", func(t *testing.T) {
		p.machine.sh(t, "rm /etc/apt/sources.list")
		defer p.repo.use(t, p.machine)
		isFailure(t, check(t), patch.RepositoryNotRead, "apt has no repository: the node's sources are empty")
	})
	p.publishAll(t)
}

func (p *patching) testCheck(t *testing.T) {
	// A newer version in the normal suite must not hide the security patch.
	p.repo.add(t, suiteStable, aptPackage{name: "tool-a", version: "2.1"})
	for _, name := range []string{"tool-b", "kubelet", "containerd.io"} {
		p.repo.add(t, suiteStable, aptPackage{name: name, version: "2.0"})
	}
	p.publishAll(t)
	r := p.order(t, v1alpha1.OrderCheck, nil)
	if !r.Complete() || !slices.Equal(names(r.Pending), []string{"tool-a", "tool-b"}) || r.Bytes == 0 {
		t.Errorf("%+v %+v", r.Failure, r)
	}
	held := []patch.Held{{Name: "containerd.io", To: "2.0", Source: patch.HeldByOrder}, {Name: "kubelet", To: "2.0", Source: patch.HeldByOrder}}
	slices.SortFunc(r.Held, func(a, b patch.Held) int { return strings.Compare(a.Name, b.Name) })
	if !slices.Equal(r.Held, held) {
		t.Errorf("held are %+v", r.Held)
	}
	r = p.order(t, v1alpha1.OrderCheck, func(o *v1alpha1.OrderPatches) { o.Patches = v1alpha1.PatchSecurity })
	if len(r.Pending) != 1 || r.Pending[0].To != "2.0" || !r.Pending[0].Security || r.Counts.Security != 1 {
		t.Errorf("security patches are %+v", r.Pending)
	}
	r = p.order(t, v1alpha1.OrderCheck, func(o *v1alpha1.OrderPatches) { o.MinAge = &metav1.Duration{Duration: time.Hour} })
	if len(r.Pending) != 0 || !slices.ContainsFunc(r.Held, func(h patch.Held) bool { return h.Name == "tool-a" && h.Source == patch.HeldByAge }) {
		t.Errorf("patches of this minute are pending: %+v, %+v", r.Pending, r.Held)
	}
	if v := p.version(t, "tool-a"); v != "1.0" {
		t.Errorf("a check has installed tool-a %s", v)
	}
}

func (p *patching) testDownload(t *testing.T) {
	p.repo.fail(corrupt)
	defer p.repo.fail(noTrouble)
	r := p.order(t, v1alpha1.OrderPatch, nil)
	isFailure(t, r, patch.DownloadFailed, "apt cannot install the patches (exit code 100)", "Hash Sum mismatch")
	if r.Before != r.After || len(r.Installed) > 0 || r.Health != patch.Healthy {
		t.Errorf("something was installed: %+v", r)
	}
}

func (p *patching) testPatch(t *testing.T) {
	// The administrator has changed a configuration file, and the package has another one.
	p.machine.sh(t, "echo mine >/etc/settings.conf")
	p.repo.add(t, suiteSecurity, aptPackage{name: "settings", version: "2.0", files: map[string]string{"etc/settings.conf": "second\n"}, conffiles: []string{"/etc/settings.conf"}})
	p.publishAll(t)
	before := p.order(t, v1alpha1.OrderCheck, nil)
	r := p.order(t, v1alpha1.OrderPatch, nil)
	isComplete(t, r, "settings", "tool-a", "tool-b")
	if r.Before != before.Before || r.Reboot.Need != patch.NotNeeded || r.Bytes == 0 {
		t.Errorf("%+v", r)
	}
	if text := p.machine.sh(t, "cat /etc/settings.conf /etc/settings.conf.dpkg-dist"); text != "mine\nsecond" {
		t.Errorf("the configuration is %q", text)
	}
	if k, c := p.version(t, "kubelet"), p.version(t, "containerd.io"); k != "1.0" || c != "1.0" {
		t.Errorf("held packages have changed: %s, %s", k, c)
	}
	if again := p.order(t, v1alpha1.OrderPatch, nil); again.Before != r.After {
		t.Errorf("the level is %s, and was reported as %s", again.Before, r.After)
	} else {
		isComplete(t, again)
	}
}

// testHeld: a patch whose dependency is held is refused, before anything changes.
func (p *patching) testHeld(t *testing.T) {
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-a", version: "3.0", fields: []string{"Depends: containerd.io (>= 2.0)"}})
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-b", version: "3.0"})
	p.publishAll(t)
	r := p.order(t, v1alpha1.OrderPatch, nil)
	isFailure(t, r, patch.HeldPackage, "the patches need a change of the held packages containerd.io; nothing was installed")
	if r.Before != r.After {
		t.Error("packages have changed")
	}
	p.machine.sh(t, "apt-mark hold tool-a")
	r = p.order(t, v1alpha1.OrderPatch, nil)
	isComplete(t, r, "tool-b")
	if !slices.Contains(r.Held, patch.Held{Name: "tool-a", Source: patch.HeldByNode}) {
		t.Errorf("held are %+v", r.Held)
	}
}

// testLock: apt-daily or an administrator holds a lock for some seconds.
func (p *patching) testLock(t *testing.T) {
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-b", version: "3.1", scripts: map[string]string{"postinst": "sleep 6\n"}})
	p.repo.add(t, suiteSecurity, aptPackage{name: "settings", version: "3.1", files: map[string]string{"etc/settings.conf": "second\n"}, conffiles: []string{"/etc/settings.conf"}})
	p.publishAll(t)
	p.machine.sh(t, "apt-get update -q && systemd-run --unit=other apt-get -y install tool-b && until fuser /var/lib/dpkg/lock-frontend 2>/dev/null || pgrep -x dpkg >/dev/null; do sleep 0.1; done")
	r := p.order(t, v1alpha1.OrderPatch, nil)
	if r.Failure != nil && r.Failure.Reason == patch.Interrupted {
		t.Errorf("a running apt counts as interrupted: %+v", r.Failure)
	}
	if !r.Complete() || p.version(t, "settings") != "3.1" {
		t.Errorf("%+v, settings %s", r.Failure, p.version(t, "settings"))
	}
}

func (p *patching) testSpace(t *testing.T) {
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-b", version: "4.0", files: map[string]string{"usr/share/tool-b/large": random(3 << 20)}})
	p.publishAll(t)
	p.machine.sh(t, "mount -t tmpfs -o size=1M small /var/cache/apt/archives && mkdir -p /var/cache/apt/archives/partial")
	r := p.order(t, v1alpha1.OrderPatch, nil)
	p.machine.sh(t, "umount /var/cache/apt/archives")
	isFailure(t, r, patch.NoSpace, "/var/cache/apt/archives has 1 MiB free, and the patches need ", "nothing was installed")
	isComplete(t, p.order(t, v1alpha1.OrderPatch, nil), "tool-b")
}

// random returns bytes that do not compress.
func random(n int) string {
	content := make([]byte, n)
	_, _ = rand.Read(content) // crypto/rand never fails
	return string(content)
}

// testKilledPod: the unit outlives its pod, and a second pod of the order finds the unit and reports.
func (p *patching) testKilledPod(t *testing.T) {
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-b", version: "5.0", scripts: map[string]string{"postinst": "touch /run/in-postinst\nwhile [ ! -e /run/go-on ]; do sleep 0.2; done\n"}})
	p.publishAll(t)
	uid := p.ask(t, v1alpha1.OrderPatch, nil)
	pod := exec.Command("nsenter", "-t", strconv.Itoa(p.machine.leader), "-a", "sh", "-c", p.command(uid))
	if err := pod.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the script of the package", func() bool { _, err := p.machine.try("test -e /run/in-postinst"); return err == nil })
	if err := pod.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = pod.Wait() // The pod was killed.
	p.machine.sh(t, "pkill -KILL -f '[p]atch-node --root' || true")
	if state := p.machine.sh(t, "systemctl show -P ActiveState kamino-patch-"+string(uid)+".service"); state != "activating" {
		t.Fatalf("the unit is %s", state)
	}
	p.machine.sh(t, "systemd-run --on-active=3 touch /run/go-on")
	out, err := p.machine.try(p.command(uid))
	if err != nil || !strings.Contains(out, "found unit kamino-patch-"+string(uid)+".service of an earlier pod") {
		t.Fatalf("the second pod: %v\n%s", err, out)
	}
	r := p.report(t)
	isComplete(t, r, "tool-b")
	if r.Bytes == 0 || len(r.Repositories) != 2 || r.Installed[0].From != "4.0" || !r.Installed[0].Security {
		t.Errorf("the second pod does not know what the first one has seen: %+v", r)
	}
}

// testScript: a package's script fails, and the others are installed.
func (p *patching) testScript(t *testing.T) {
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-b", version: "6.0", scripts: map[string]string{"postinst": "touch /run/reboot-required\nexit 3\n"}})
	p.repo.add(t, suiteSecurity, aptPackage{name: "settings", version: "6.0", files: map[string]string{"etc/settings.conf": "second\n"}, conffiles: []string{"/etc/settings.conf"}})
	p.publishAll(t)
	r := p.order(t, v1alpha1.OrderPatch, nil)
	isFailure(t, r, patch.InstallFailed, "packages are not completely installed: tool-b", "dpkg: error processing package tool-b (--configure)")
	if !slices.Equal(r.Failed, []string{"tool-b"}) || r.Health != patch.Broken || p.version(t, "settings") != "6.0" || r.Before == r.After {
		t.Errorf("%+v", r)
	}
	// The need of a reboot does not make a failed patch complete.
	if r.Reboot.Need != patch.Needed || !slices.Contains(r.Reboot.Witnesses, patch.RebootRequiredFile) {
		t.Errorf("%+v", r.Reboot)
	}
	r = p.order(t, v1alpha1.OrderCheck, nil)
	isFailure(t, r, patch.Interrupted, "dpkg is broken (incomplete packages: tool-b)", "run dpkg --configure -a")
	// The cause is gone, and the node is drained.
	p.machine.sh(t, "sed -i /exit/d /var/lib/dpkg/info/tool-b.postinst")
	// The repair alone changes the level.
	if r = p.order(t, v1alpha1.OrderPatch, nil); !r.Complete() || r.Before == r.After || len(r.Installed)+len(r.Pending) > 0 {
		t.Errorf("not repaired: %+v", r)
	}
}

// testInterrupted: dpkg was killed in the middle, as by a loss of power.
func (p *patching) testInterrupted(t *testing.T) {
	p.machine.sh(t, "rm -f /run/go-on /run/in-postinst")
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-b", version: "7.0", scripts: map[string]string{"postinst": "touch /run/in-postinst\nwhile [ ! -e /run/go-on ]; do sleep 0.2; done\n"}})
	p.publishAll(t)
	p.machine.sh(t, "apt-get update -q && systemd-run --unit=killed apt-get -y install tool-b && until [ -e /run/in-postinst ]; do sleep 0.1; done && systemctl kill -s KILL killed.service && touch /run/go-on && sleep 1")
	if left := p.machine.sh(t, "ls /var/lib/dpkg/updates"); !strings.Contains(left, "0") {
		t.Logf("dpkg left nothing in its journal: %q", left)
	}
	r := p.order(t, v1alpha1.OrderPatch, func(o *v1alpha1.OrderPatches) { o.Drained = false })
	isFailure(t, r, patch.Interrupted, "Kamino repairs dpkg only on a drained node; run dpkg --configure -a")
	r = p.order(t, v1alpha1.OrderPatch, nil)
	if !r.Complete() || p.version(t, "tool-b") != "7.0" {
		t.Errorf("%+v, tool-b %s", r.Failure, p.version(t, "tool-b"))
	}
}

// testKernels: old kernels go, and two stay. The kernels have no files; the running one is the host's.
func (p *patching) testKernels(t *testing.T) {
	kernel := func(abi string) aptPackage {
		name := "linux-image-6.1.0-" + abi + "-amd64"
		return aptPackage{name: name, version: "6.1." + abi, files: map[string]string{"boot/vmlinuz-6.1.0-" + abi + "-amd64": "kernel\n"}}
	}
	for i, abi := range []string{"30", "31", "32", "33"} {
		p.repo.add(t, suiteSecurity, kernel(abi))
		p.repo.add(t, suiteSecurity, aptPackage{name: "linux-image-amd64", version: "6.1." + abi, fields: []string{"Depends: linux-image-6.1.0-" + abi + "-amd64"}})
		p.publishAll(t)
		if i == 0 {
			p.machine.sh(t, "apt-get update -q && apt-get install -y linux-image-amd64")
			continue
		}
		r := p.order(t, v1alpha1.OrderPatch, nil)
		if want := []string{"linux-image-6.1.0-" + abi + "-amd64", "linux-image-amd64"}; !r.Complete() || !slices.Equal(names(r.Installed), want) {
			t.Fatalf("%+v, installed %v", r.Failure, names(r.Installed))
		}
	}
	// The last run removed kernels before it added one.
	left := strings.Fields(p.machine.sh(t, "cd /boot && ls vmlinuz-*"))
	if len(left) > 3 || !slices.Contains(left, "vmlinuz-6.1.0-33-amd64") || !slices.Contains(left, "vmlinuz-6.1.0-32-amd64") {
		t.Errorf("kernels on the disk: %v", left)
	}
}

func (p *patching) testReboot(t *testing.T) {
	boot := p.machine.sh(t, "cat /proc/sys/kernel/random/boot_id")
	r := p.order(t, v1alpha1.OrderReboot, nil)
	if r.Method != patch.Reboot || r.Token != boot || r.Failure != nil {
		t.Errorf("%+v", r)
	}
	// Here systemd-nspawn ends instead of starting the machine again.
	<-p.machine.ended
	console, err := os.ReadFile(p.machine.image + ".console")
	if err != nil || !strings.Contains(string(console), "Reached target") || !strings.Contains(string(console), "Rebooting.") {
		t.Errorf("the machine has not rebooted in good order: %v", err)
	}
	p.machine.cutPower(t)
	p.machine = p.lab.boot(t, p.machine.name, p.machine.image, "")
	if again := p.machine.sh(t, "cat /proc/sys/kernel/random/boot_id"); again == boot {
		t.Error("the boot ID is the old one")
	}
	if r := p.order(t, v1alpha1.OrderCheck, nil); !r.Complete() || r.Reboot.Need != patch.NotNeeded {
		t.Errorf("after the reboot: %+v", r)
	}
	uid := p.ask(t, v1alpha1.OrderCheck, nil)
	p.lab.api.mu.Lock()
	p.lab.api.object.Spec.Token = boot
	p.lab.api.mu.Unlock()
	if out, err := p.machine.try(p.command(uid)); err == nil || !strings.Contains(out, "the host was restarted in between") {
		t.Errorf("an order of the earlier boot is carried out: %v\n%s", err, out)
	}
}
