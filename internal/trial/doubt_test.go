package trial

import (
	"strings"
	"testing"
)

// TestADoubtIsNoVerdict: a trial with a doubtful Node neither passes nor fails, unless the cloud reported an error of
// the image before the Node existed.
func TestADoubtIsNoVerdict(t *testing.T) {
	for name, world := range worlds {
		f := world.facts()
		if world.change != nil {
			world.change(&f)
		}
		f.Doubt = "nodes a and b name the same instance"
		v := Judge(f)
		switch broken := f.Instance.Broken != ""; {
		case broken != (v.Result == Failed), v.Result == Passed:
			t.Errorf("%s: %s: %s", name, v.Result, v.Message)
		case !f.Instance.Running.IsZero() && !f.Instance.Gone && (v.Result != Inconclusive || v.Message != "Registered: "+f.Doubt):
			t.Errorf("%s: %s: %s", name, v.Result, v.Message)
		}
		testChecks(t, v)
	}
}

// TestADoubtfulTwin is named, and does not count against the version.
func TestADoubtfulTwin(t *testing.T) {
	f := good()
	f.DoubtfulTwins = []string{"node w-1, which is not older"}
	if v := Judge(f); v.Result != Inconclusive || !strings.Contains(v.Message, "w-1, which is not older") {
		t.Errorf("%s: %s", v.Result, v.Message)
	}
	f.Twins = []string{"w-2"}
	if v := Judge(f); v.Result != Failed {
		t.Errorf("%s: %s", v.Result, v.Message)
	}
}

// TestANodeWithoutAKubelet: without a kubelet, a Node decides nothing, unless the cloud reported an error of the image
// before. The kubelet may still start.
func TestANodeWithoutAKubelet(t *testing.T) {
	pending := 0
	for name, world := range worlds {
		f := world.facts()
		if world.change != nil {
			world.change(&f)
		}
		f.Node, f.Unproven = "a", "node a names the instance, and no kubelet renews its Lease"
		v := Judge(f)
		switch broken := f.Instance.Broken != ""; {
		case broken != (v.Result == Failed), v.Result == Passed:
			t.Errorf("%s: %s: %s", name, v.Result, v.Message)
		case f.Instance.Running.IsZero() || f.Instance.Gone || f.Doubt != "" || f.FailedReads >= mostUnread:
		case v.Result == Inconclusive && f.since(f.Instance.Running) > f.Limits.Defaulted().Register && v.Message == "Registered: "+f.Unproven:
		case v.Result == Pending && f.since(f.Instance.Running) <= f.Limits.Defaulted().Register:
			pending++
		default:
			t.Errorf("%s, %s: %s: %s", name, f.since(f.Instance.Running), v.Result, v.Message)
		}
		testChecks(t, v)
	}
	if pending == 0 {
		t.Error("none waits for its kubelet")
	}
}
