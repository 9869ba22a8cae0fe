package aws

import (
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/untried"
)

// TestKopsTakesOver: a version of a group of kOps' is made, and whoever follows the capture, asks for the status or would promote it is
// told which image the instance group is to name. Nothing of kOps' is written. When kOps has done it the capture has succeeded.
func TestKopsTakesOver(t *testing.T) {
	g := newGround(t, "kops")
	_, err := sandbox.AWS().Groups().CreateOrUpdateTags(t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []astypes.Tag{{
		Key: sdk.String("kops.k8s.io/instancegroup"), Value: sdk.String("nodes-a"), PropagateAtLaunch: sdk.Bool(true), ResourceId: sdk.String(g.group), ResourceType: sdk.String("auto-scaling-group"),
	}}})
	g.must(err)
	g.points("$Latest")
	dry := sandbox.Run(t, nil, "kamino", untried.Capture(g.nodes[0].Node, "--max-concurrent", "100", "--namespace", g.namespace, "--dry-run")...)
	if dry.Code != 0 || !strings.Contains(dry.Stdout, "hand the version over") {
		t.Errorf("the dry run ended with %d:\n%s%s", dry.Code, dry.Stdout, dry.Stderr)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.capture(0, []string{"handed over", "`kops edit instancegroup nodes-a`", "builds its next nodes from version"})
	}()
	over := ""
	for last := time.Now().Add(2 * time.Minute); over == ""; time.Sleep(100 * time.Millisecond) {
		if p := g.prototype(); p != nil {
			over = p.Status.HandsOver()
		}
		if time.Now().After(last) {
			t.Fatalf("nothing is handed over: %+v", g.prototype())
		}
	}
	ami := regexp.MustCompile(`instance group nodes-a to (ami-[0-9a-f]+) `).FindStringSubmatch(over)
	if ami == nil {
		t.Fatalf("what is handed over names no image: %s", over)
	}
	version := g.prototype().Spec.Version
	for _, told := range [][]string{{"status"}, {"history", g.group}, {"promote", g.group, version}} {
		got := sandbox.Run(t, nil, "kamino", append(told, "--namespace", g.namespace)...)
		want := 0
		if told[0] == "promote" {
			want = exitRefused
		}
		if said := got.Stdout + got.Stderr; got.Code != want || !strings.Contains(said, ami[1]) || !strings.Contains(said, "kops update cluster --yes") {
			t.Errorf("kamino %s ended with %d:\n%s", strings.Join(told, " "), got.Code, said)
		}
	}
	if now := g.look(); now.Image != g.before.Image || sdk.ToString(g.asg().LaunchTemplate.Version) != "$Latest" {
		t.Errorf("the group names version %s of its template, and builds from %s", sdk.ToString(g.asg().LaunchTemplate.Version), now.Image)
	}
	_, err = sandbox.AWS().EC2().CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: sdk.String(g.group), SourceVersion: sdk.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: sdk.String(ami[1])},
	})
	g.must(err)
	<-ended
	if now := g.look(); now.Image == g.before.Image {
		t.Errorf("the group builds from %s still", now.Image)
	}
	g.nothingLeft()
}
