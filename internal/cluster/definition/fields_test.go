package definition

import (
	"bytes"
	"compress/gzip"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// previous are the definitions of the version before, which hack/previous names.
func previous(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	packed, err := os.Open("testdata/previous.yaml.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	text, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(text); err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(plain.String(), "\n---\n") {
		d := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// TestNoFieldIsLostSilently: the upgrade page names each field of the version before that is gone, and each field that became required.
func TestNoFieldIsLostSilently(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tasks/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := manifest.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	now, before := fieldsOf(definitions), fieldsOf(previous(t))
	if len(before) < 300 {
		t.Fatalf("the version before had %d fields", len(before))
	}
	named := ""
	for _, name := range before.without(now) {
		if named != "" && strings.HasPrefix(name, named) {
			continue // a child of a field that is gone
		}
		if of := name[strings.LastIndex(name, ".")+1:]; !strings.Contains(string(page), "`"+of+"`") && !strings.Contains(string(page), "."+of+"`") {
			t.Errorf("%s is gone, and the page does not say so", name)
		}
		named = name + "."
	}
	for name, isRequired := range now {
		if had, known := before[name]; known && isRequired && !had && !strings.Contains(string(page), "`"+strings.TrimPrefix(name, "Prototype.")+"`") {
			t.Errorf("%s became required, and the page does not say so", name)
		}
	}
}

// TestDifference: a build finds the definitions of the version before, in both directions.
func TestDifference(t *testing.T) {
	c := apitest.Client(t)
	connection, err := cluster.New(rest.CopyConfig(apitest.Server(t)), "test")
	if err != nil {
		t.Fatal(err)
	}
	eventually := func(wanted string) {
		t.Helper()
		says := ""
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			if says, err = Difference(t.Context(), connection); err == nil && (says == "") == (wanted == "") && strings.Contains(says, wanted) {
				return
			}
		}
		t.Errorf("%q, %v; want %q", says, err, wanted)
	}
	eventually("")
	for _, d := range previous(t) {
		live := named(d.GetName())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), live); err != nil {
			t.Fatal(err)
		}
		live.Object["spec"] = d.Object["spec"]
		if err := c.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	eventually("of another version")
	if err := apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	eventually("")
	definitions, err := manifest.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	now, before := fieldsOf(definitions), fieldsOf(previous(t))
	if says := before.difference(now); !strings.Contains(says, "lack ") {
		t.Errorf("the version before says of these definitions %q", says)
	}
}
