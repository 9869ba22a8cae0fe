package conformance

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/aws"
)

// TestAWSPolicyByTags checks that the policy by tags of docs/reference allows a whole capture of a tagged group, and no
// capture of another group.
func TestAWSPolicyByTags(t *testing.T) {
	policy, err := os.ReadFile("../../docs/reference/aws-policy-by-tags.json")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(day.Add(-20 * time.Hour)))
		wire := newWire()
		w := groupOf(t, startAmazonOn(t, wire, 0, func(c *aws.Config) {
			c.Users = append(c.Users, aws.User{Name: "narrow", KeyID: "AKIANARROW", Secret: "narrow", Policy: string(policy)})
		}), "1")
		config := w.config
		config.AWS.Credentials = sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: "AKIANARROW", SecretAccessKey: "narrow"}, nil
		})
		w.disks, w.recipes = provider.New(config)
		refusals, err := cloud.New(w.disks, w.recipes).Preflight(t.Context(), cloud.PreflightSpec{Pool: w.pool, Instance: w.ids[0], Version: version})
		w.must(err)
		if !slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return r.Reason == cloud.PermissionMissing }) {
			t.Errorf("a group without the tag: %+v", refusals)
		}
		tag("kamino", "enabled")(w)
		var ids []string
		for _, m := range w.group().Instances {
			ids = append(ids, *m.InstanceId)
		}
		enabled := []ec2types.Tag{{Key: sdk.String("kamino"), Value: sdk.String("enabled")}}
		_, err = w.raw.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: append(ids, w.template), Tags: enabled})
		w.must(err)
		time.Sleep(time.Until(day))
		settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialOff}}
		settings.Generalize.Profile = v1alpha1.ProfileEKS
		newCourse(w.stage()).play(t.Context(), version, settings)
		all, err := w.recipes.Permissions(t.Context(), w.pool)
		w.must(err)
		for _, p := range all {
			if !p.Allowed {
				t.Errorf("doctor reports %s as missing", p.Action)
			}
		}
	})
}
