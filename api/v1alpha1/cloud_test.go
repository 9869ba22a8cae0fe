package v1alpha1_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestReplicas(t *testing.T) {
	of := func(n int32) *int32 { return &n }
	for name, test := range map[string]struct {
		settings v1alpha1.Settings
		want     int32
	}{
		"no section":       {v1alpha1.Settings{}, 0},
		"an empty section": {v1alpha1.Settings{Azure: &v1alpha1.AzureSettings{}}, 0},
		"a number":         {v1alpha1.Settings{Azure: &v1alpha1.AzureSettings{Replicas: of(5)}}, 5},
	} {
		if got := test.settings.Replicas(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestForeignSettings(t *testing.T) {
	own, none := v1alpha1.Settings{Azure: &v1alpha1.AzureSettings{}}, v1alpha1.Settings{}
	theirs := v1alpha1.Settings{AWS: &v1alpha1.AWSSettings{}}
	for providerID, foreign := range map[string]bool{"azure:///subscriptions/s": false, "aws:///eu-west-1a/i-1": true, "azurestack://x": true, "": true} {
		if got := own.Foreign(providerID); (got == "settings.azure") != foreign || got != "" && !foreign {
			t.Errorf("with the provider ID %q %q is foreign", providerID, got)
		}
		if got := theirs.Foreign(providerID); (got == "settings.aws") == strings.HasPrefix(providerID, "aws://") {
			t.Errorf("with the provider ID %q %q is foreign of settings.aws", providerID, got)
		}
		if got := none.Foreign(providerID); got != "" {
			t.Errorf("without settings of a cloud %q is foreign", got)
		}
	}
}

// TestSettingsOfACloud holds the rules that look at more than one field, on both kinds.
func TestSettingsOfACloud(t *testing.T) {
	const otherCloud = "settings.azure is for nodes of Azure, but the donor is in another cloud: remove settings.azure"
	five := map[string]any{"replicas": int64(5)}
	rate := func(n int64) map[string]any { return map[string]any{"volumeInitializationRate": n} }
	for name, test := range map[string]struct {
		settings   map[string]any
		providerID string // Azure's if empty
		says       string // empty if it is taken
		policy     bool   // refused of a policy, too
	}{
		"a section":                         {settings: map[string]any{"azure": five}},
		"an empty section":                  {settings: map[string]any{"azure": map[string]any{}}},
		"a section of another cloud":        {settings: map[string]any{"azure": five}, providerID: "aws:///eu-west-1a/i-1", says: otherCloud},
		"an empty section of another cloud": {settings: map[string]any{"azure": map[string]any{}}, providerID: "aws:///eu-west-1a/i-1", says: otherCloud},
		"a rate on Azure": {settings: map[string]any{"aws": rate(200)},
			says: "settings.aws is for nodes of AWS, but the donor is in another cloud: remove settings.aws"},
		"a rate on AWS": {settings: map[string]any{"aws": rate(200)}, providerID: "aws:///eu-west-1a/i-1"},
		"a rate that AWS does not have": {settings: map[string]any{"aws": rate(400)}, providerID: "aws:///eu-west-1a/i-1",
			says: "less than or equal to 300", policy: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := apitest.Client(t)
			made := with(t, prototype("of-a-cloud"), "settings", test.settings)
			if test.providerID != "" {
				made = with(t, made, "donor.providerID", test.providerID)
			}
			for _, o := range []struct {
				object *unstructured.Unstructured
				says   string
			}{{made, test.says}, {with(t, policy("of-a-cloud"), "settings", test.settings), map[bool]string{true: test.says}[test.policy]}} {
				switch err := c.Create(t.Context(), o.object); {
				case o.says == "" && err != nil:
					t.Errorf("the %s was refused: %v", o.object.GetKind(), err)
				case o.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), o.says)):
					t.Errorf("the %s: %v, want it to say %q", o.object.GetKind(), err, o.says)
				}
				_ = c.Delete(t.Context(), o.object)
			}
		})
	}
}
