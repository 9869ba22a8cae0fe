package capture

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// listOf is a stored list with one package.
func listOf(t *testing.T, version string) string {
	t.Helper()
	text, err := contents.Contents{Packages: []contents.Package{{Kind: contents.Deb, Name: "curl", Version: version}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// priorContents gives the version in the recipe a list and a Prototype that keeps the list.
func (s *testEnv) priorContents(list string) {
	const name = "pool1-before"
	s.must(s.cloud.TagImage(s.t.Context(), cloud.ImageRef{Pool: s.pool, Version: s.lineage}, map[string]string{
		cloud.TagPrototype: name, cloud.TagContents: v1alpha1.ContentsDigest(list), cloud.TagKubelet: "v1.36.1",
	}))
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "before"}}
	p.Spec = v1alpha1.PrototypeSpec{
		Pool:    "pool1",
		PoolID:  string(s.pool),
		Version: s.lineage,
		Donor:   v1alpha1.Donor{NodeName: "gone", ProviderID: "memory:///gone"},
	}
	s.must(s.clean.Create(s.t.Context(), p))
	p.Status.Phase, p.Status.Contents = v1alpha1.PhaseSucceeded, list
	s.must(s.clean.Status().Update(s.t.Context(), p))
}

// TestContentsAreKept: the Prototype keeps the list, and the version has its digest. Event, status and condition compare
// the version with the version before. All hold if the process ends after any call, of which every fourth is tried.
func TestContentsAreKept(t *testing.T) {
	const want = "compared with version 2026.03.01: packages: 1 changed, 0 added, 0 removed"
	memory.Courses{Losses: crashesAfter, Least: 12, Choose: each(4, 0), Play: func(t *testing.T, schedule *memory.Schedule) {
		s := newTestEnv(t, func(s *testEnv) { s.lineage, s.contents = "2026.03.01", listOf(t, "2") }).decide()
		s.priorContents(listOf(t, "1"))
		var events recordedEvents
		s.engine.Recorder, s.onRestart = &events, func() { s.engine.Recorder = &events }
		s.schedule = schedule
		p := s.play()
		s.succeeded(p)
		if p.Status.Contents != s.contents || p.Status.Image.ContentsDigest != v1alpha1.ContentsDigest(s.contents) {
			t.Errorf("the list is not kept: %+v", p.Status.Image)
		}
		images := s.cloud.World().Images
		if got := images[len(images)-1].Tags[cloud.TagContents]; got != v1alpha1.ContentsDigest(s.contents) {
			t.Errorf("the tag is %q", got)
		}
		if p.Status.Recipe == nil || p.Status.Recipe.Contents != want {
			t.Errorf("status.recipe is %+v", p.Status.Recipe)
		}
		if all := strings.Join(events, "\n"); !strings.Contains(all, "Normal Promoted: new nodes of pool pool1 use the image of node donor; "+want) {
			t.Errorf("no event compares the versions:\n%s", all)
		}
	}}.LoseEach(t)
}

// TestContentsAreComparedBeforeApproval: a person reads the difference before the promotion.
func TestContentsAreComparedBeforeApproval(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.lineage, s.contents = "2026.03.01", listOf(t, "2") }).decide(func(p *v1alpha1.Prototype) {
		p.Spec.Settings.Promotion.Mode = v1alpha1.PromotionManual
	})
	s.priorContents(listOf(t, "1"))
	awaited := ""
	s.play(func(int) {
		p := s.prototype()
		if p == nil || p.Status.Phase != v1alpha1.PhaseAwaitingPromotion || awaited != "" {
			return
		}
		awaited = meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady).Message
		s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/2026.03.14")
	})
	if !strings.HasSuffix(awaited, "; compared with version 2026.03.01: packages: 1 changed, 0 added, 0 removed") {
		t.Errorf("the condition is %q", awaited)
	}
}

// TestContentsDelayNoPromotion: without a list, or with a list that another client changed, the capture promotes the version
// without a comparison.
func TestContentsDelayNoPromotion(t *testing.T) {
	for name, prepare := range map[string]func(s *testEnv){
		"no list of the donor": func(s *testEnv) {
			s.contents = ""
			s.priorContents(listOf(t, "1"))
		},
		"no list before": func(*testEnv) {},
		"a changed list before": func(s *testEnv) {
			s.priorContents(listOf(t, "1"))
			s.must(s.cloud.TagImage(t.Context(), cloud.ImageRef{Pool: s.pool, Version: s.lineage}, map[string]string{cloud.TagContents: "sha256:other"}))
		},
		"a deleted Prototype before": func(s *testEnv) {
			s.must(s.cloud.TagImage(t.Context(), cloud.ImageRef{Pool: s.pool, Version: s.lineage}, map[string]string{cloud.TagPrototype: "gone", cloud.TagContents: "sha256:1"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.lineage, s.contents = "2026.03.01", listOf(t, "2") })
			prepare(s)
			s.decide()
			p := s.play()
			s.succeeded(p)
			if p.Status.Recipe == nil || strings.Contains(p.Status.Recipe.Contents, "packages") {
				t.Errorf("status.recipe is %+v", p.Status.Recipe)
			}
			if kept := p.Status.Contents != ""; kept != (s.contents != "") {
				t.Errorf("a list is kept: %t", kept)
			}
		})
	}
}
