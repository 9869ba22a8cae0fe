package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// growPool adds a node to the pool, and returns the spec of the node. Azure shows these parts of the recipe only to
// the node.
func (w *cloudEnv) growPool() fleet.Spec {
	w.t.Helper()
	before := w.list()
	w.scale(len(before) + 1)
	var specs []fleet.Spec
	w.until("larger", func() bool {
		specs = slices.DeleteFunc(w.cloud.Specs(), func(s fleet.Spec) bool { return slices.Contains(before, cloud.InstanceID(s.ProviderID)) })
		return len(specs) == 1
	})
	return specs[0]
}

// command returns the command of the node's bootstrap extension; empty without one.
func command(s fleet.Spec) string {
	for _, extension := range s.Extensions {
		if strings.EqualFold(extension.Name, "vmssCSE") {
			text, _ := extension.ProtectedSettings["commandToExecute"].(string)
			return text
		}
	}
	return ""
}

// TestLostRecipeFieldsAreRestored: after a first promotion new nodes do not bootstrap. After the restoration they
// bootstrap again, with the settings that Azure does not return and that the operator passed.
func TestLostRecipeFieldsAreRestored(t *testing.T) {
	const data, run = "#cloud-config\n# of old\n", "/bin/bash /opt/join.sh"
	w := newCloudEnv(t, options{pool: func(p *simulator.PoolSpec) { p.CustomData, p.Command = []byte(data), run }})
	generic, err := w.p.Pool(t.Context(), w.pool)
	w.must(err)
	w.publish(w.snapshot())
	promotion, err := w.p.RecipeChange(t.Context(), w.ref(), true)
	w.must(err)
	if strings.Contains(string(promotion.Backup), "of old") || strings.Contains(string(promotion.Backup), "join.sh") {
		t.Fatalf("Azure gives out what it never does: %s", promotion.Backup)
	}
	w.must(w.p.SetRecipe(t.Context(), promotion))
	if spec := w.growPool(); strings.Contains(string(spec.CustomData), "of old") || command(spec) != "" {
		t.Fatalf("a new node still bootstraps: %q, %q", spec.CustomData, command(spec))
	}

	saved := cloud.Saved{Backup: promotion.Backup}
	change, err := w.p.RestoreChange(t.Context(), w.pool, saved)
	w.must(err)
	if len(change.Missing) != 2 || len(change.Adds) != 0 {
		t.Fatalf("the settings that Azure does not return are missing: %+v", change)
	}
	saved.Given = map[string][]byte{"customData": []byte(data), "extension vmssCSE": []byte(`{"commandToExecute": "` + run + `"}`)}
	change, err = w.p.RestoreChange(t.Context(), w.pool, saved)
	w.must(err)
	if len(change.Missing) != 0 || len(change.Adds) != 2 {
		t.Fatalf("the change is %+v", change)
	}
	w.must(w.p.SetRecipe(t.Context(), change))
	back, err := w.p.Pool(t.Context(), w.pool)
	w.must(err)
	if back.Recipe.Image != generic.Recipe.Image || !slices.Equal(back.Recipe.Bootstrap, generic.Recipe.Bootstrap) {
		t.Errorf("the recipe is %+v, and was %+v", back.Recipe, generic.Recipe)
	}
	if spec := w.growPool(); string(spec.CustomData) != data || command(spec) != run {
		t.Errorf("a new node gets customData %q and runs %q", spec.CustomData, command(spec))
	}
	again, err := w.p.RestoreChange(t.Context(), w.pool, saved)
	w.must(err)
	if !again.Done {
		t.Errorf("afterwards: %+v", again)
	}
}
