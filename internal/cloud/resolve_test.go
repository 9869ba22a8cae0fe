package cloud

import (
	"context"
	"strings"
	"testing"
)

func TestResolvePool(t *testing.T) {
	pools := map[PoolID]string{
		"/a/k8s-pool1-24816321-vmss": "k8s-pool1-24816321-vmss", "/a/k8s-pool2-24816321-vmss": "k8s-pool2-24816321-vmss",
		"/a/k8s-pool11-24816321-vmss": "k8s-pool11-24816321-vmss", "/a/batch": "batch", "/b/Batch": "Batch", "/a/batch-large": "batch-large",
	}
	for _, test := range []struct {
		text string
		want PoolID
		why  string
	}{
		{"k8s-pool2-24816321-vmss", "/a/k8s-pool2-24816321-vmss", ""},
		{"K8S-POOL2-24816321-VMSS", "/a/k8s-pool2-24816321-vmss", ""},
		{"/A/k8s-pool1-24816321-vmss", "/a/k8s-pool1-24816321-vmss", ""},
		{"pool2", "/a/k8s-pool2-24816321-vmss", ""},
		{"POOL11", "/a/k8s-pool11-24816321-vmss", ""},
		{"pool1-", "/a/k8s-pool1-24816321-vmss", ""},
		{"large", "/a/batch-large", ""},
		{"pool1", "", "2 pools have pool1 in the name: pass more of the name: k8s-pool1-24816321-vmss or k8s-pool11-24816321-vmss"},
		{"k8s", "", "3 pools have k8s in the name"},
		// A full name never matches as a part of a longer name, even if two pools have the name.
		{"batch", "", "2 pools have the name batch: pass a pool ID, for example /a/batch"},
		{"pol2", "", `pool "pol2" not found; did you mean k8s-pool2-24816321-vmss?`},
		{"bach-large", "", "did you mean batch-large?"},
		{"", "", "not found"},
	} {
		got, err := ResolvePool(test.text, pools)
		switch {
		case got != test.want:
			t.Errorf("%q means %q, not %q (%v)", test.text, got, test.want, err)
		case (err == nil) != (test.why == ""), err != nil && !strings.Contains(err.Error(), test.why):
			t.Errorf("%q: %v, not %q", test.text, err, test.why)
		}
	}
	if _, err := ResolvePool("pool1", nil); err == nil || !strings.Contains(err.Error(), "no node of this cluster") {
		t.Errorf("without pools: %v", err)
	}
}

// withPoolInScope is a provider with one more pool in scope. It names pools by the end of their IDs.
type withPoolInScope struct {
	Provider
	refuses bool
}

func (withPoolInScope) PoolName(id PoolID) string {
	return string(id)[strings.LastIndex(string(id), "/")+1:]
}
func (s withPoolInScope) PoolsInScope(context.Context, ...PoolID) ([]PoolID, error) {
	if s.refuses {
		return nil, &Error{Kind: Denied}
	}
	return []PoolID{"/a/pool1", "/a/empty"}, nil
}
func (withPoolInScope) ReadPool(text string) (PoolID, bool) {
	return PoolID(text), strings.HasPrefix(text, "/whole/")
}

// TestFindAsksTheCloud finds a pool without nodes.
func TestFindAsksTheCloud(t *testing.T) {
	for text, want := range map[string]PoolID{"pool1": "/a/pool1", "empty": "/a/empty", "/whole/id": "/whole/id", "nothing": ""} {
		got, err := Find(t.Context(), withPoolInScope{}, text, []PoolID{"/a/pool1"})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q means %q, not %q (%v)", text, got, want, err)
		}
	}
	if got, err := Find(t.Context(), withPoolInScope{refuses: true}, "empty", []PoolID{"/a/pool1"}); err == nil {
		t.Errorf("without a list of pools %q is found", got)
	}
}
