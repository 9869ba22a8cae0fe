package registry

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// two is a registry of two clouds. The second cloud has two schemes.
var two = Registry{{Name: "azure", Schemes: []string{"azure"}}, {Name: "aws", Schemes: []string{"aws", "aws-outposts"}}}

func TestCloudByProviderID(t *testing.T) {
	for name, test := range map[string]struct {
		registry Registry
		named    string
		ids      []string
		failing  bool
		want     string // the cloud's name, or a part of the error
		asks     bool
	}{
		"by its name":                 {registry: two, named: "aws", ids: []string{"azure:///x"}, want: "aws"},
		"by an unknown name":          {registry: two, named: "gcp", want: `unknown cloud "gcp": use --cloud azure or aws`},
		"the only one":                {registry: two[:1], ids: []string{"aws:///x"}, want: "azure"},
		"by the nodes":                {registry: two, ids: []string{"aws:///x", "aws:///y"}, want: "aws", asks: true},
		"by another scheme":           {registry: two, ids: []string{"aws-outposts:///x"}, want: "aws", asks: true},
		"by two schemes of one cloud": {registry: two, ids: []string{"aws:///x", "aws-outposts:///y"}, want: "aws", asks: true},
		"some have none":              {registry: two, ids: []string{"", "azure:///x", "nonsense", "://"}, want: "azure", asks: true},
		"some schemes are unknown":    {registry: two, ids: []string{"kind://x", "azure:///x"}, want: "azure", asks: true},
		"two match":                   {registry: two, ids: []string{"azure:///x", "aws:///x"}, want: "use --cloud azure or --cloud aws", asks: true},
		"one in ten strayed in":       {registry: two, ids: append(slices.Repeat([]string{"aws:///x"}, 9), "azure:///x"), want: "aws", asks: true},
		"more than one in ten": {registry: two, ids: append(slices.Repeat([]string{"aws:///x"}, 8), "azure:///x"),
			want: "belong to several clouds", asks: true},
		"unknown schemes do not count": {registry: two, ids: append(slices.Repeat([]string{"kind://x"}, 9), "azure:///x"), want: "azure", asks: true},
		"none matches": {registry: two, ids: []string{"kind://x", "k3s://y", "kind://z"},
			want: "belong to kind, k3s, but Kamino supports azure, aws", asks: true},
		"no node says":                    {registry: two, ids: []string{""}, want: "no node has a spec.providerID of a known cloud", asks: true},
		"there is no node":                {registry: two, want: "no node has", asks: true},
		"the nodes can't be listed":       {registry: two, failing: true, want: "cannot find the cluster's cloud from the nodes: no", asks: true},
		"a scheme that is a part of one":  {registry: two, ids: []string{"azur:///x"}, want: "belong to azur,", asks: true},
		"the scheme is compared exactly.": {registry: two, ids: []string{"AWS:///x"}, want: "belong to AWS,", asks: true},
	} {
		asked := false
		d, err := test.registry.Choose(test.named, func() ([]string, error) {
			asked = true
			if test.failing {
				return nil, errors.New("no")
			}
			return test.ids, nil
		})
		got := d.Name
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || strings.ContainsAny(got, "\n") || asked != test.asks {
			t.Errorf("%s: %q (asked %t), want %q (%t)", name, got, asked, test.want, test.asks)
		}
	}
}

// TestChooseWithoutCluster: without a cluster a command must name the cloud, unless the registry has a single cloud.
func TestChooseWithoutCluster(t *testing.T) {
	if _, err := two.Choose("", nil); err == nil || !strings.Contains(err.Error(), "--cloud azure or --cloud aws") {
		t.Error(err)
	}
	if d, err := two[:1].Choose("", nil); err != nil || d.Name != "azure" {
		t.Error(d.Name, err)
	}
}

// TestDescriptionsAreWhole: every field that other packages read is set. Names, schemes and flags are unique.
func TestDescriptionsAreWhole(t *testing.T) {
	var names, schemes, flags []string
	for _, d := range All() {
		names, schemes = append(names, d.Name), append(schemes, d.Schemes...)
		for _, o := range d.Options {
			flags = append(flags, o.Flag)
			if o.Usage == "" || !strings.HasPrefix(o.Variable, "KAMINO_") {
				t.Errorf("%s: flag %s is not in the help", d.Name, o.Flag)
			}
		}
		if d.New == nil || d.ConfigFile == "" || d.Environment == "" || len(d.Reasons) == 0 || len(d.Classes) == 0 {
			t.Errorf("%s: something is left out: %+v", d.Name, d)
		}
		if r := d.Remedies; slices.Contains([]string{r.Credential, r.Permissions, r.Action, r.Audit, r.Pool, r.NoPool, r.History}, "") {
			t.Errorf("%s: a remedy is left out: %+v", d.Name, r)
		}
		if !strings.HasPrefix(d.Docs, "https://") { // internal/wording/page holds the addresses to the pages
			t.Errorf("%s: the page is %q, not an address", d.Name, d.Docs)
		}
		for _, reason := range d.Reasons {
			if !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(reason.Name) {
				t.Errorf("%s: reason %q is not one word", d.Name, reason.Name)
			}
			if reason.Means == "" || reason.Remedy == "" || strings.HasSuffix(reason.Means, ".") || strings.HasSuffix(reason.Remedy, ".") {
				t.Errorf("%s: %s does not say what is in the way and what to do, each without a full stop", d.Name, reason.Name)
			}
		}
	}
	for _, all := range [][]string{names, schemes, flags} {
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("one of %v is there twice", all)
		}
	}
}

// TestADescriptionMakesAProvider: New makes a provider, or reports the error of the configuration.
func TestADescriptionMakesAProvider(t *testing.T) {
	for _, d := range All() {
		if _, _, err := d.New(t.Context(), cloud.Config{File: "/there/is/no/file"}); err == nil || !strings.Contains(err.Error(), "/there/is/no/file") {
			t.Errorf("%s: without its file: %v", d.Name, err)
		}
	}
}
