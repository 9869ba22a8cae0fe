package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

const good = "rules:\n- {id: a-rule, action: delete, paths: [/a], reason: r, source: s}\n"

func TestLoadIsStrict(t *testing.T) {
	head := "name: p\nversion: \"1\"\nsummary: s\n"
	for text, says := range map[string]string{
		head + good:            "",
		good:                   "name, version and summary",
		head + good + good[7:]: "twice",
		head + strings.Replace(good, "reason", "raison", 1):                                                          "raison",
		head + strings.Replace(good, "/a]", "a]", 1):                                                                 "absolute",
		head + strings.Replace(good, "/a]", "/a/../b]", 1):                                                           "clean",
		head + strings.Replace(good, "/a]", "/]", 1):                                                                 "root",
		head + strings.Replace(good, "/a]", "\"/*\"]", 1):                                                            "everything",
		head + strings.Replace(good, "/a]", "\"/**\"]", 1):                                                           "everything",
		head + strings.Replace(good, "/a]", "/a**]", 1):                                                              "alone",
		head + strings.Replace(good, "/a]", "\"/[\"]", 1):                                                            "syntax error",
		head + strings.Replace(good, "/a]", "]", 1):                                                                  "no paths",
		head + strings.Replace(good, "a-rule", "A rule", 1):                                                          "lower-case",
		head + strings.Replace(good, "delete", "shred", 1):                                                           "unknown action",
		head + strings.Replace(good, "delete", "edit", 1):                                                            "editor is for edit",
		head + strings.Replace(good, "source: s", "source: s, only: dirs", 1):                                        "only may be",
		head + strings.Replace(good, "source: s", "source: s, by: [/b]", 1):                                          "by is for regenerate",
		head + strings.Replace(good, "source: s", "source: \"\"", 1):                                                 "reason and source",
		head + strings.Replace(good, "delete", "edit, editor: nobody", 1):                                            "unknown editor",
		head + strings.Replace(good, "delete", "edit, editor: drop-lines, pattern: \"(\"", 1):                        "pattern",
		head + strings.Replace(good, "delete", "install, file: nothing, mode: \"0644\"", 1):                          "nothing",
		head + strings.Replace(good, "delete", "install, file: f, mode: \"999\"", 1):                                 "octal",
		head + strings.Replace(good, "source: s", "source: s, unless: {paths: [b], pattern: x, reason: why}", 1):     "absolute",
		head + strings.Replace(good, "delete", "truncate", 1) + "include: [other]\n":                                 "other",
		head + good + "stop:\n- {units: [kubelet], reason: r}\n":                                                     "name of a unit",
		head + strings.Replace(strings.Replace(good, "delete", "truncate", 1), "/a]", "\"/a/*\"]", 1):                "without wildcards",
		head + strings.Replace(good, "source: s", "source: s, except: [\"/a/**\"]", 1):                               "except knows no",
		head + strings.Replace(good, "delete", "refuse, identity: true", 1):                                          "identity is for",
		head + strings.Replace(good, "source: s", "source: s, unless: {paths: [/b], pattern: \"\", reason: why}", 1): "are needed",
	} {
		_, err := LoadFrom(fstest.MapFS{"p.yaml": {Data: []byte(text)}, "files/f": {Data: []byte("x")}}, "p")
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("got %v, want %q, for\n%s", err, says, text)
		}
	}
	if _, err := Load("other"); err == nil || !strings.Contains(err.Error(), "static") {
		t.Errorf("an unknown profile: %v", err)
	}
}

// TestOrderOfRules: a user's rule takes its place among the rules of the profile.
func TestOrderOfRules(t *testing.T) {
	for _, name := range v1alpha1.Profiles() {
		p, err := LoadFiles(name, map[string][]byte{"ours.yaml": []byte("version: \"1\"\n" + strings.Replace(good, "delete", "keep", 1))})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(p.Rules, func(a, b Rule) int { return a.turn() - b.turn() }) {
			t.Errorf("the rules of profile %s are not in the order of execution", name)
		}
	}
}

func TestVersionOfRules(t *testing.T) {
	head := "name: p\nversion: \"7\"\nsummary: s\n"
	seen := map[string]bool{}
	for _, text := range []string{good, strings.Replace(good, "/a", "/b", 1), strings.Replace(good, "delete", "install, file: f, mode: \"0644\"", 1)} {
		for _, content := range []string{"x", "y"} {
			p, err := LoadFrom(fstest.MapFS{"p.yaml": {Data: []byte(head + text)}, "files/f": {Data: []byte(content)}}, "p")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(p.Version, "7-") {
				t.Errorf("got %q", p.Version)
			}
			seen[p.Version] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("four profiles that differ have %d versions", len(seen))
	}
}

// TestMakersAreChecked covers faults in the text of makers.
func TestMakersAreChecked(t *testing.T) {
	good := func() Maker {
		return Maker{Name: "m", Missing: "m", Remedy: "r", DisabledBy: []Setting{{Paths: []string{"/a"}, Pattern: "x"}}}
	}
	for want, change := range map[string]func(*Maker){
		"must be given":    func(m *Maker) { m.Remedy = "" },
		"absolute":         func(m *Maker) { m.Paths = []string{"a"} },
		"a setting needs":  func(m *Maker) { m.DisabledBy[0].Pattern = "" },
		"setting needs":    func(m *Maker) { m.DisabledBy[0].Key = "k" },
		"error parsing":    func(m *Maker) { m.DisabledBy[0].Pattern = "(" },
		"must be absolute": func(m *Maker) { m.DisabledBy[0].Paths = []string{"a"} },
		"needs paths":      func(m *Maker) { m.DisabledBy[0].Paths = nil },
		"is listed twice":  func(m *Maker) {},
	} {
		m := good()
		change(&m)
		p := Profile{Makers: []Maker{m}}
		if want == "is listed twice" {
			p.Makers = append(p.Makers, m)
		}
		if err := p.prepareMakers(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	p := Profile{Rules: []Rule{{ID: "r", Action: Regenerate, By: []string{"/bin/x", "nobody"}}}}
	if err := p.prepareMakers(); err == nil || !strings.Contains(err.Error(), `unknown maker "nobody"`) {
		t.Errorf("got %v", err)
	}
}

// ownFiles are the rules whose files are of one program alone. The program creates them when it starts, and nothing else
// needs them.
var ownFiles = map[string]string{
	"cloud-init-seed": "the cloud, as a data source", "machine-id-flatcar": "systemd", "waagent-state": "the Azure agent, and returning.sh on the donor",
	"storage-sessions": "the storage driver, for each volume", "lvm-devices": "LVM", "multipath": "multipathd", "package-lists": "package managers",
	"runtime-identity": "the container runtime", "docker-containers": "the kubelet and Docker", "longhorn-disk": "Longhorn", "openebs-disk": "OpenEBS",
	"agent-docker": "Docker", "agent-fwupd": "fwupd", "agent-kilo": "Kilo", "agent-splunk": "the forwarder",
	"cockpit-certificate": "Cockpit",
}

// claim matches a reason that says that something creates the file again.
var claim = regexp.MustCompile(`(?i)\b(?:again|another|its own|writes|makes|creates|lists|logs in|enrols)\b`)

// TestDeletionsNameTheirMaker: a rule whose reason promises the file again is checked before any change, or its file is of
// one program alone.
func TestDeletionsNameTheirMaker(t *testing.T) {
	promised := map[string]bool{}
	for _, name := range v1alpha1.Profiles() {
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Rules {
			if r.Action.Is(Delete) && claim.MatchString(r.Reason) {
				promised[r.ID] = true
				if ownFiles[r.ID] == "" {
					t.Errorf("rule %s has no maker, and its reason is: %s", r.ID, r.Reason)
				}
			}
		}
	}
	for id := range ownFiles {
		if !promised[id] {
			t.Errorf("no deletion %s promises its files", id)
		}
	}
}
