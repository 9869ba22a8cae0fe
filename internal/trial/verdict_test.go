package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// ago returns the time in minutes before noon.
func ago(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }

// good returns the facts of a passed trial.
func good() Facts {
	return Facts{
		Now: noon, Begun: ago(20), Instance: Instance{Running: ago(18)},
		Node: "trial-0", Registered: ago(17), Ready: true, WasReady: true, Changed: ago(15),
		Daemons:       []Daemon{{Name: "kube-system/cni", Ready: true, Restarts: 1}, {Name: "kube-system/proxy", Ready: true}},
		IdentityKnown: true, Comparison: &PeerComparison{Others: 3}, Digest: "sha256:a", Proven: "sha256:a",
		Network: Measure{Passed, "pods reach each other"}, Images: Measure{Passed, "started without a pull"},
		Job: Measure{Skipped, "settings.trial.job names no Job"}, Reboot: Reboot{Skipped: "settings.trial.reboot is false"},
	}
}

// again returns the facts of a node that is Ready for three minutes in its second boot.
func again() Facts {
	f := good()
	f.Changed, f.Reboot = ago(3), Reboot{Decided: true, Accepted: ago(5), Booted: true, Back: ago(3)}
	return f
}

// young returns a trial whose node is Ready for three minutes.
func young() Facts {
	f := good()
	f.Begun, f.Instance.Running, f.Registered, f.Changed = ago(8), ago(6), ago(5), ago(3)
	return f
}

// worlds lists trials with one change, and the result.
var worlds = map[string]struct {
	facts  func() Facts
	change func(*Facts)
	result Result
	says   string
}{
	"good":                    {good, nil, Passed, "every check has passed"},
	"a soak that is not over": {young, nil, Pending, "Soaked: node trial-0 is watched until 12:07 UTC"},
	"a soak's last minute": {young, func(f *Facts) { f.Limits.Soak = 3*time.Minute + time.Second }, Pending,
		"Soaked: node trial-0 is watched until 12:01 UTC"},

	"no instance yet": {young, func(f *Facts) { f.Instance = Instance{} }, Pending, "Provisioned: the cloud makes the instance"},
	"no quota": {young, func(f *Facts) { f.Instance = Instance{Refused: "12 of 12 cores are used"} }, Inconclusive,
		"Provisioned: the cloud has no instance to spare: 12 of 12 cores are used"},
	"an instance that takes too long": {good, func(f *Facts) { f.Instance = Instance{} }, Inconclusive,
		"Provisioned: the cloud has not made an instance within 10m0s"},
	"an image that cannot be used": {young, func(f *Facts) { f.Instance = Instance{Broken: "the image has no boot disk"} }, Failed,
		"Provisioned: the cloud could not make an instance from the version: the image has no boot disk"},
	"an instance that cannot be made, without a cause": {good,
		func(f *Facts) { f.Instance = Instance{Unclear: "NetworkingInternalOperationError: no"} }, Inconclusive,
		"Provisioned: the cloud could not make an instance, and the cause may not be the version: NetworkingInternalOperationError: no"},

	"an instance that a user removed": {good, func(f *Facts) { f.Instance.Gone, f.Node = true, "" }, Inconclusive,
		"Provisioned: the instance is gone: another client removed the instance"},

	"no Node yet":        {young, func(f *Facts) { f.Node = "" }, Pending, "Registered: the instance has no Node yet"},
	"no Node":            {good, func(f *Facts) { f.Node = "" }, Failed, "Registered: the instance has run for 10m0s, and there is no Node"},
	"no provider ID yet": {young, func(f *Facts) { f.WithoutProviderID = true }, Pending, "Registered: node trial-0 has no provider ID yet"},
	"no provider ID": {good, func(f *Facts) { f.WithoutProviderID = true }, Failed,
		"Registered: node trial-0 has no provider ID: check the kubelet's flags --cloud-provider and --provider-id on the disk"},
	"no Node, unwatched": {good, func(f *Facts) { f.Node, f.Unobserved = "", 9*time.Minute }, Pending, "Registered: the instance has no Node yet"},
	"a Node, not Ready":  {young, func(f *Facts) { f.Ready, f.WasReady = false, false }, Pending, "Ready: node trial-0 is not Ready yet"},
	"a Node, never Ready": {good, func(f *Facts) { f.Ready, f.WasReady = false, false }, Failed,
		"Ready: node trial-0 is not Ready, 10m0s after the registration"},
	"just Ready": {young, func(f *Facts) { f.Changed = ago(1) }, Pending, "Ready: node trial-0 has just become Ready, and is watched until 12:09 UTC"},
	"just Ready, to soak for a while": {young, func(f *Facts) { f.Changed, f.Limits = ago(1), Within(2*time.Hour, 100*time.Second) }, Pending,
		"Ready: node trial-0 has just become Ready, and is watched until 12:01 UTC"},
	"away for a moment": {good, func(f *Facts) { f.Ready, f.Changed = false, ago(1) }, Pending, "Ready: node trial-0 was Ready, and is not at the moment"},
	"away":              {good, func(f *Facts) { f.Ready, f.Changed = false, ago(3) }, Failed, "Ready: node trial-0 was Ready, and is not any more"},
	"now and then": {good, func(f *Facts) {
		f.Begun, f.Instance.Running, f.Registered, f.Changed = ago(60), ago(58), ago(57), ago(1)
	}, Failed,
		"Ready: node trial-0 does not stay Ready"},
	"back for good": {good, func(f *Facts) {
		f.Begun, f.Instance.Running, f.Registered, f.Changed = ago(60), ago(58), ago(57), ago(12)
	}, Passed, "every check has passed"},

	"no DaemonSets": {good, func(f *Facts) { f.Daemons = nil }, Passed, "every check has passed"},
	"a DaemonSet on its way": {young, func(f *Facts) { f.Daemons[0].Ready, f.Daemons[0].Why = false, "ContainerCreating" }, Pending,
		"DaemonSets: awaited on node trial-0: kube-system/cni (ContainerCreating)"},
	"a DaemonSet that does not come": {good, func(f *Facts) { f.Daemons[0].Ready, f.Daemons[1].Ready = false, false }, Failed,
		"DaemonSets: not Ready on node trial-0 for 10m0s, but Ready on other nodes: kube-system/cni; kube-system/proxy"},
	"a DaemonSet that was away": {good, func(f *Facts) { f.Daemons[0].Ready, f.Daemons[0].Since = false, ago(10) }, Pending,
		"DaemonSets: awaited on node trial-0: kube-system/cni"},
	"a DaemonSet that is away": {good, func(f *Facts) { f.Daemons[0].Ready, f.Daemons[0].Since = false, ago(11) }, Failed,
		"DaemonSets: not Ready on node trial-0 for 10m0s, but Ready on other nodes: kube-system/cni"},
	"a rollout that passes by": {good, func(f *Facts) { f.Daemons[0].Ready, f.Daemons[0].Rollout = false, true }, Pending,
		"DaemonSets: awaited on node trial-0: kube-system/cni (rollout in progress)"},
	"a DaemonSet that crashes": {young, func(f *Facts) { f.Daemons[0].Restarts, f.Daemons[0].Why = 3, "exit code 1" }, Failed,
		"DaemonSets: DaemonSet kube-system/cni was restarted 3 times on node trial-0 (exit code 1)"},

	"a twin": {young, func(f *Facts) { f.Twins = []string{"w-1", "w-2"} }, Failed,
		"Identity: node trial-0 has the machine ID or the system UUID of w-1, w-2"},
	"no identity": {good, func(f *Facts) { f.IdentityKnown = false }, Inconclusive,
		"Identity: node trial-0 does not report the machine ID and the system UUID"},
	"another size": {good, func(f *Facts) {
		f.Comparison = &PeerComparison{Others: 2, Differences: []LastingDifference{{Difference{"allocatable/pods", "allocatable pods is 8"}, ago(10)}}}
	}, Failed, "Differences: node trial-0 differs from 2 other nodes of the pool: allocatable pods is 8"},
	"a size to compare": {young, func(f *Facts) { f.Comparison = nil }, Pending, "Differences: is compared"},
	"an expression that is true": {good, func(f *Facts) { f.Expectations = []Expectation{{Name: "Devices", Evaluated: true, Met: true}} }, Passed,
		"every check has passed"},
	"an expression to evaluate": {good, func(f *Facts) { f.Expectations = []Expectation{{Name: "Devices"}} }, Pending, "Devices: is evaluated"},
	"an expression that is false": {good, func(f *Facts) { f.Expectations = []Expectation{{Name: "Devices", Evaluated: true, Since: ago(6)}} }, Failed,
		"Devices: the expression is false for node trial-0"},
	"an expression that is false for a moment": {good,
		func(f *Facts) { f.Expectations = []Expectation{{Name: "Devices", Evaluated: true, Since: ago(5)}} }, Pending,
		"Devices: the expression is still false for node trial-0"},
	"an expression without a value": {good, func(f *Facts) {
		f.Expectations = []Expectation{{Name: "Devices", Evaluated: true, Error: "no such key: gpu"}}
	}, Inconclusive,
		"Devices: the expression has no value for node trial-0: no such key: gpu"},
	"an expression without a value yet": {young, func(f *Facts) {
		f.Expectations = []Expectation{{Name: "Devices", Evaluated: true, Met: true, Error: "no such key: gpu"}}
	}, Pending,
		"Devices: the expression has no value yet for node trial-0: no such key: gpu"},
	"another disk": {young, func(f *Facts) { f.Digest = "sha256:b" }, Failed,
		"Disk: the manifest on the disk of node trial-0 is sha256:b, and the version was proven with sha256:a"},
	"an ending certificate": {good, func(f *Facts) {
		f.Certificate = Certificate{Path: "/c.crt", End: f.Now.Add(21*24*time.Hour - time.Second), Keep: 3}
	}, Failed,
		"Disk: the credential /c.crt on the disk of node trial-0 ends at 2026-03-30T11:59:59Z, and nodes may use this version for 21 days " +
			"(see kept versions and the oldest node); renew the credential of the donor, then capture again"},
	"a valid certificate": {good, func(f *Facts) {
		f.Certificate = Certificate{Path: "/c.crt", End: f.Now.Add(21 * 24 * time.Hour), Keep: 3}
	},
		Passed, "every check has passed; its credential /c.crt ends at 2026-03-30T12:00:00Z"},
	"an end that the settings ignore": {good, func(f *Facts) { f.Certificate = Certificate{Path: "/c.crt", End: f.Now, Keep: 3, Ignored: true} },
		Passed, "every check has passed; its credential /c.crt ends at 2026-03-09T12:00:00Z"},
	"an old pool": {good, func(f *Facts) {
		f.Certificate = Certificate{Path: "/c.crt", End: f.Now.Add(29 * 24 * time.Hour), Keep: 3}
		f.Comparison.Oldest = f.Now.Add(-30 * 24 * time.Hour)
	}, Failed, "Disk: the credential /c.crt on the disk of node trial-0 ends at 2026-04-07T12:00:00Z, and nodes may use this version for 30 days " +
		"(see kept versions and the oldest node); renew the credential of the donor, then capture again"},
	"a disk to be read":     {young, func(f *Facts) { f.Digest = "" }, Pending, "Disk: the manifest on the disk of node trial-0 is read"},
	"an unread disk":        {good, func(f *Facts) { f.Digest = "" }, Inconclusive, "Disk: the manifest on the disk of node trial-0 could not be read"},
	"no network":            {young, func(f *Facts) { f.Network = Measure{Failed, "no pod reaches 10.0.0.1"} }, Failed, "Network: no pod reaches 10.0.0.1"},
	"a network to measure":  {young, func(f *Facts) { f.Network = Measure{} }, Pending, "Network: is measured"},
	"an unmeasured network": {good, func(f *Facts) { f.Network = Measure{} }, Inconclusive, "Network: there is no answer after 5m0s"},
	"no second node":        {good, func(f *Facts) { f.Network = Measure{Skipped, "there is no second node"} }, Passed, "every check has passed"},
	"a slow disk":           {young, func(f *Facts) { f.Performance = Measure{Failed, "takes 9s"} }, Failed, "Performance: takes 9s"},
	"a disk to measure":     {young, func(f *Facts) { f.Performance = Measure{Result: Pending} }, Pending, "Performance: is measured"},
	"an unmeasured disk":    {good, func(f *Facts) { f.Performance = Measure{Result: Pending} }, Inconclusive, "Performance: there is no answer after 5m0s"},
	"a pull":                {young, func(f *Facts) { f.Images = Measure{Failed, "was pulled"} }, Failed, "Images: was pulled"},
	"a Job that fails":      {young, func(f *Facts) { f.Job = Measure{Failed, "exit code 1"} }, Failed, "Job: exit code 1"},

	"a second boot":                         {again, nil, Passed, "every check has passed"},
	"a second boot that is due":             {good, func(f *Facts) { f.Reboot = Reboot{} }, Pending, "Reboot: every other check has passed, and the cloud restarts the instance"},
	"a second boot before the soak is over": {young, func(f *Facts) { f.Reboot = Reboot{} }, Pending, "Soaked: node trial-0 is watched until 12:07 UTC"},
	"a doubt before the second boot": {good, func(f *Facts) { f.Reboot, f.Digest = Reboot{}, "" }, Inconclusive,
		"Disk: the manifest on the disk of node trial-0 could not be read"},
	"a restart that is recorded": {again, func(f *Facts) { f.Reboot = Reboot{Decided: true} }, Pending,
		"Reboot: every other check has passed, and the cloud restarts the instance"},
	"a boot that the cloud did not answer for": {again, func(f *Facts) { f.Reboot.Accepted = time.Time{} }, Pending,
		"Reboot: every other check has passed, and the cloud restarts the instance"},
	"between two boots": {again, func(f *Facts) { f.Ready, f.Changed, f.Reboot = false, ago(4), Reboot{Decided: true, Accepted: ago(5)} }, Pending,
		"Reboot: the instance restarts, and node trial-0 is awaited"},
	"a disk that boots once": {again, func(f *Facts) { f.Ready, f.Reboot = false, Reboot{Decided: true, Accepted: ago(11)} }, Failed,
		"Reboot: node trial-0 is not Ready 10m0s after the restart of its instance: the disk boots once, and not again"},
	"a second boot that is never Ready": {again, func(f *Facts) { f.Ready, f.Reboot = false, Reboot{Decided: true, Accepted: ago(11), Booted: true} }, Failed,
		"Reboot: node trial-0 is not Ready 10m0s after the restart of its instance: the disk boots once, and not again"},
	"a restart that no one saw": {again, func(f *Facts) { f.Reboot = Reboot{Decided: true, Accepted: ago(11)} }, Inconclusive,
		"Reboot: the cloud accepted a restart of the instance, and node trial-0 still reports the same boot 10m0s later; " +
			"to go without a second boot, set settings.trial.reboot to false"},
	"a second boot, unwatched": {again, func(f *Facts) {
		f.Ready, f.Unobserved, f.Reboot = false, 3*time.Minute, Reboot{Decided: true, Accepted: ago(11)}
	},
		Pending, "Reboot: the instance restarts, and node trial-0 is awaited"},
	"an instance that is gone at its second boot": {again, func(f *Facts) { f.Instance.Gone, f.Reboot.Back = true, time.Time{} }, Inconclusive,
		"Provisioned: the instance is gone: another client removed the instance"},
	"just back": {again, func(f *Facts) { f.Changed, f.Reboot.Back = ago(1), ago(1) }, Pending,
		"Ready: node trial-0 has just become Ready, and is watched until 12:01 UTC"},
	"away behind its second boot": {again, func(f *Facts) { f.Ready, f.Changed = false, ago(3) }, Failed,
		"Ready: node trial-0 was Ready, and is not any more"},
	"no network behind the second boot": {again, func(f *Facts) { f.Network = Measure{Failed, "no pod reaches 10.0.0.1"} }, Failed,
		"Network: no pod reaches 10.0.0.1"},
	"late, but back": {again, func(f *Facts) {
		f.Begun, f.Instance.Running, f.Registered = ago(60), ago(58), ago(57)
	}, Passed, "every check has passed"},

	"unread once":     {young, func(f *Facts) { f.FailedReads = 3 }, Pending, "Soaked: node trial-0 is watched until 12:07 UTC"},
	"unread for long": {young, func(f *Facts) { f.FailedReads = 4 }, Inconclusive, "the last 4 observations of the trial failed"},
	"passed, unread":  {good, func(f *Facts) { f.FailedReads = 9 }, Passed, "every check has passed"},
	"failed, unread": {young, func(f *Facts) { f.FailedReads, f.Twins = 9, []string{"w-1"} }, Failed,
		"Identity: node trial-0 has the machine ID or the system UUID of w-1"},
}

func TestJudge(t *testing.T) {
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			f := world.facts()
			if world.change != nil {
				world.change(&f)
			}
			v := Judge(f)
			if v.Result != world.result || v.Message != world.says {
				t.Errorf("%s: %s\nwant %s: %s", v.Result, v.Message, world.result, world.says)
			}
			testChecks(t, v)
		})
	}
}

// testChecks compares a verdict with its checks.
func testChecks(t *testing.T, v Verdict) {
	t.Helper()
	var names []CheckName
	var results []Result
	for _, check := range v.Checks {
		names, results = append(names, check.Name), append(results, check.Result)
		if check.Message == "" {
			t.Errorf("%s says nothing", check.Name)
		}
	}
	own := slices.DeleteFunc(slices.Clone(names), func(n CheckName) bool { return n == "Devices" })
	if diff := cmp.Diff(Names(), own); diff != "" {
		t.Errorf("want each check once, in order:\n%s", diff)
	}
	if i := slices.Index(results, Failed); i >= 0 {
		if v.Result != Failed || v.RebootDue || !strings.HasPrefix(v.Message, string(names[i])+": ") {
			t.Errorf("%s has failed, and the verdict is %s: %s", names[i], v.Result, v.Message)
		}
		for _, behind := range results[i+1:] {
			if behind != Pending {
				t.Errorf("behind the first failure: %v", results)
			}
		}
	} else if v.Result == Failed {
		t.Errorf("it has failed, and no check has: %v", results)
	}
	if v.Result == Passed && slices.ContainsFunc(results, func(r Result) bool { return r != Passed && r != Skipped }) {
		t.Errorf("it has passed with %v", results)
	}
}

// TestEveryCheckCanFailAndCannotBeLeftOut: each check fails in some world, and a missing check never lets a trial pass.
func TestEveryCheckCanFailAndCannotBeLeftOut(t *testing.T) {
	failed, open := map[CheckName]bool{}, map[CheckName]bool{}
	for _, world := range worlds {
		f := world.facts()
		if world.change != nil {
			world.change(&f)
		}
		for _, check := range Judge(f).Checks {
			failed[check.Name] = failed[check.Name] || check.Result == Failed
			open[check.Name] = open[check.Name] || check.Result == Pending || check.Result == Inconclusive
		}
	}
	for _, name := range Names() {
		if !failed[name] && name != Soaked { // a node that does not stay Ready fails by Ready
			t.Errorf("no world fails by %s", name)
		}
		if !open[name] {
			t.Errorf("no world waits for %s", name)
		}
	}
}

// drawn draws arbitrary facts, even impossible ones.
var drawn = rapid.Custom(func(t *rapid.T) Facts {
	when := func(name string) time.Time { return ago(rapid.IntRange(0, 90).Draw(t, name)) }
	measure := func(name string) Measure {
		return Measure{rapid.SampledFrom([]Result{"", Pending, Passed, Failed, Inconclusive, Skipped}).Draw(t, name), name}
	}
	f := Facts{
		Now: noon, Begun: when("begun"), FailedReads: rapid.IntRange(0, 5).Draw(t, "unread"),
		Unobserved: time.Duration(rapid.IntRange(0, 20).Draw(t, "blind")) * time.Minute,
		Registered: when("registered"), Changed: when("changed"), Node: rapid.SampledFrom([]string{"", "trial-0"}).Draw(t, "node"),
		Ready: rapid.Bool().Draw(t, "ready"), WasReady: rapid.Bool().Draw(t, "was ready"), IdentityKnown: rapid.Bool().Draw(t, "identity known"),
		Digest: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "digest"), Proven: "a", Comparison: &PeerComparison{Others: 2},
		Network: measure("network"), Images: measure("images"), Job: measure("job"),
	}
	f.Reboot = rapid.SampledFrom([]Reboot{{}, {Skipped: "-"}, {Decided: true, Accepted: ago(5), Booted: true, Back: ago(3)}}).Draw(t, "reboot")
	if rapid.Bool().Draw(t, "runs") {
		f.Instance.Running = when("running")
	}
	f.Instance.Gone = rapid.IntRange(0, 9).Draw(t, "gone") == 0
	for i := range rapid.IntRange(0, 2).Draw(t, "daemons") {
		f.Daemons = append(f.Daemons,
			Daemon{Name: fmt.Sprint(i), Ready: rapid.Bool().Draw(t, "daemon ready"), Restarts: int32(rapid.IntRange(0, 4).Draw(t, "restarts"))})
	}
	if rapid.Bool().Draw(t, "twin") {
		f.Twins = []string{"w-1"}
	}
	return f
})

// variants are the facts, and the facts without a comparison, with a difference, with a false expression, with a certificate that
// ends, before the end of the soak, and without a second boot.
func variants(f Facts) []Facts {
	uncompared, different, unexpected, ending := f, f, f, f
	ending.Certificate = Certificate{Path: "/c.crt", End: f.Now}
	uncompared.Comparison = nil
	different.Comparison = &PeerComparison{Others: 2, Differences: []LastingDifference{{Difference{"clock", "the clock is wrong"}, f.Changed}}}
	unexpected.Expectations = []Expectation{{Name: "Devices", Evaluated: true, Since: f.Changed}}
	early, once := f, f
	early.Changed, once.Reboot = f.Now.Add(-9*time.Minute), Reboot{}
	return []Facts{f, uncompared, different, unexpected, ending, early, once}
}

// objection returns why a verdict is wrong for the facts; empty for a valid verdict.
func objection(f Facts, v Verdict) string {
	seen := !f.Instance.Running.IsZero() && f.Node != "" && f.Ready && !f.Instance.Gone
	switch {
	case v.Result == Skipped || v.Message == "":
		return "it says nothing"
	case v.Result == Passed && (!seen || f.Now.Sub(f.Changed) < map[bool]time.Duration{false: 10 * time.Minute, true: 2 * time.Minute}[f.Reboot.Booted]):
		return "it passes a node that has not been Ready for long"
	case v.Result == Passed && (len(f.Twins) > 0 || !f.IdentityKnown || f.Digest != f.Proven):
		return "it passes a node that may be another's copy"
	case v.Result == Passed && slices.ContainsFunc(f.Daemons, func(d Daemon) bool { return !d.Ready || d.Restarts > 2 }):
		return "it passes a node without its DaemonSets"
	case v.Result == Passed && slices.ContainsFunc([]Measure{f.Network, f.Images, f.Job},
		func(m Measure) bool { return m.Result != Passed && m.Result != Skipped }):
		return "it passes what was not measured"
	case v.Result == Passed && (f.Comparison == nil || len(f.Comparison.Differences) > 0):
		return "it passes a node that differs from the others"
	case v.Result == Passed && !f.Certificate.End.IsZero() && !f.Certificate.Ignored && f.Certificate.End.Before(f.Now.AddDate(0, 0, 7)):
		return "it passes a node whose certificate ends"
	case v.Result == Passed && slices.ContainsFunc(f.Expectations, func(e Expectation) bool { return !e.Met }):
		return "it passes a node against the user's expression"
	case v.Result == Failed && f.Instance.Gone:
		return "it fails a version for a removed instance"
	case v.Result == Failed && f.Instance.Running.IsZero() && f.Instance.Broken == "":
		return "it fails a version for what the cloud has not made"
	case v.Result == Failed && f.Node == "" && f.Now.Sub(f.Instance.Running)-f.Unobserved <= 10*time.Minute && f.Instance.Broken == "":
		return "it fails a node that is not late"
	case v.Result == Pending && f.FailedReads >= 4:
		return "it waits without a look"
	case v.Result == Passed && f.Reboot.Skipped == "" && f.Reboot.Back.IsZero():
		return "it passes a disk that has booted once"
	case v.RebootDue && (v.Result != Pending || !f.Reboot.Decided && slices.ContainsFunc(v.Checks[:len(v.Checks)-1], func(c Check) bool {
		return c.Result != Passed && c.Result != Skipped
	})):
		return "it restarts a node that has not passed"
	case v.Result == Inconclusive && f.FailedReads < 4 && !slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Result == Inconclusive }):
		return "it gives up without a reason"
	case seen && len(f.Twins) > 0 && f.Now.Sub(f.Changed)-f.Unobserved >= 2*time.Minute && v.Result != Failed:
		return "it lets a twin live"
	}
	return ""
}

func TestNothingWithoutGrounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, f := range variants(drawn.Draw(t, "facts")) {
			if v := Judge(f); objection(f, v) != "" {
				t.Fatalf("%s: %+v", objection(f, v), v)
			}
		}
	})
}

// TestWrongJudges: for each wrong variant, some world causes an objection.
func TestWrongJudges(t *testing.T) {
	with := func(change func(*Facts)) func(Facts) Verdict {
		return func(f Facts) Verdict {
			change(&f)
			return Judge(f)
		}
	}
	result := func(from, to Result) func(Facts) Verdict {
		return func(f Facts) Verdict {
			v := Judge(f)
			if v.Result == from {
				v.Result = to
			}
			return v
		}
	}
	for name, wrong := range map[string]func(Facts) Verdict{
		"does not soak": with(func(f *Facts) { f.Limits.Soak = time.Second }),
		"boots once":    with(func(f *Facts) { f.Reboot = Reboot{Skipped: "-"} }),
		"restarts at once": func(f Facts) Verdict {
			v := Judge(f)
			v.RebootDue = f.Reboot == Reboot{}
			return v
		},
		"sees no twins":            with(func(f *Facts) { f.Twins = nil }),
		"takes identity for given": with(func(f *Facts) { f.IdentityKnown = true }),
		"reads no disk":            with(func(f *Facts) { f.Digest = f.Proven }),
		"ignores certificates":     with(func(f *Facts) { f.Certificate = Certificate{} }),
		"expects nothing":          with(func(f *Facts) { f.Expectations = nil }),
		"compares nothing":         with(func(f *Facts) { f.Comparison = &PeerComparison{Skipped: "-"} }),
		"counts no restarts":       with(func(f *Facts) { f.Daemons = nil }),
		"measures nothing": with(func(f *Facts) {
			f.Network, f.Images, f.Job = Measure{Skipped, "-"}, Measure{Skipped, "-"}, Measure{Skipped, "-"}
		}),
		"has no patience":          with(func(f *Facts) { f.Limits.Register = time.Second }),
		"blames for blindness":     with(func(f *Facts) { f.Unobserved = 0 }),
		"blames for what is gone":  with(func(f *Facts) { f.Instance.Gone = false }),
		"waits for ever":           with(func(f *Facts) { f.FailedReads = 0 }),
		"takes a doubt for a pass": result(Inconclusive, Passed),
		"takes a doubt for a failure": func(f Facts) Verdict {
			v := Judge(f)
			if v.Checks[0].Result == Inconclusive {
				v.Result = Failed
			}
			return v
		},
		"takes what is open for a pass": result(Pending, Passed),
		"never fails":                   result(Failed, Passed),
		"gives up":                      result(Pending, Inconclusive),
	} {
		objects := func(f Facts) bool { return objection(f, wrong(f)) != "" }
		found := slices.ContainsFunc(variants(good()), objects)
		for seed := 0; seed < 50_000 && !found; seed++ {
			found = objects(drawn.Example(seed))
		}
		if !found {
			t.Errorf("no test fails for a judge who %s", name)
		}
	}
}

func TestLimits(t *testing.T) {
	ten := 10 * time.Minute
	want := Limits{Provision: ten, Register: ten, Ready: ten, Daemons: ten, Settle: 2 * time.Minute, Soak: ten, Measure: 5 * time.Minute, Job: ten, Reboot: ten}
	if diff := cmp.Diff(want, Limits{Soak: -1}.Defaulted()); diff != "" {
		t.Error(diff)
	}
	want.Soak = time.Minute
	if diff := cmp.Diff(want, Limits{Soak: time.Minute}.Defaulted()); diff != "" {
		t.Error(diff)
	}
}

// TestOneDaemonSet tests singular and plural.
func TestOneDaemonSet(t *testing.T) {
	for n, want := range map[int]string{
		1: "the only healthy DaemonSet of other nodes is healthy on node trial-0",
		2: "all 2 healthy DaemonSets of other nodes are healthy on node trial-0",
	} {
		f := good()
		f.Daemons = f.Daemons[:n]
		checks := Judge(f).Checks
		if i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == Daemons }); checks[i].Result != Passed || checks[i].Message != want {
			t.Errorf("%d: %+v, want %q", n, checks[i], want)
		}
	}
}
