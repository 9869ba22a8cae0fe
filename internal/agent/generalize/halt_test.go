package generalize

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestNoRemovalWithoutFirstBoot: on a full disk, for example, the first-boot script cannot be written. Then
// nothing may be removed, because the next boot would not create the removed files again.
func TestNoRemovalWithoutFirstBoot(t *testing.T) {
	for what, blocked := range map[string]map[string]string{
		"the script": {"etc/kamino": "a file, where a directory has to be\n"},
		"the link":   {"etc/systemd/system/multi-user.target.wants/kamino-first-boot.service/": ""},
	} {
		t.Run(what, func(t *testing.T) {
			p := load(t, v1alpha1.ProfileStatic)
			files := full(p)
			for name := range files {
				if name == "etc/kamino/first-boot.sh" || name == "etc/systemd/system/kamino-first-boot.service" ||
					name == "etc/systemd/system/multi-user.target.wants/kamino-first-boot.service" {
					delete(files, name)
				}
			}
			dir := plant(t, files, blocked)
			was := snapshot(t, dir)
			_, err := run(t, dir, runner(p))
			_ = refusedOf(t, err)
			now := snapshot(t, dir)
			for name, content := range was {
				if diff := cmp.Diff(content, now[name]); diff != "" {
					t.Errorf("/%s was touched:\n%s", name, diff)
				}
			}
		})
	}
}

// TestRegenerateNeedsProgram refuses a run if the program that creates the file again is not on the disk.
func TestRegenerateNeedsProgram(t *testing.T) {
	p := &rules.Profile{Name: "test", Version: "1", Rules: []rules.Rule{{
		ID: "keys", Action: rules.Regenerate, Paths: []string{"/etc/key"}, By: []string{"/usr/bin/make-key"}, Reason: "r", Source: "s",
	}}}
	dir := plant(t, map[string]string{"etc/key": "k", "usr/bin/make-key": ""})
	if _, err := run(t, dir, runner(p)); !exists(dir, "etc/key") {
		t.Errorf("removed, and nothing makes it again (%v)", err)
	} else {
		_ = refusedOf(t, err)
	}
	writeFile(t, dir, "usr/bin/make-key", "#!/bin/sh\n")
	if _, err := run(t, dir, runner(p)); err != nil || exists(dir, "etc/key") {
		t.Errorf("got %v", err)
	}
}

// TestFreeSpace: every written directory counts, because a live machine may have several file systems.
func TestFreeSpace(t *testing.T) {
	p, tr := load(t, v1alpha1.ProfileStatic), open(t, plant(t, node))
	plenty := tree.FreeSpace{Bytes: minFreeBytes, Files: minFreeFiles}
	if whys := outOfSpace(p, tr, func(string) (tree.FreeSpace, error) { return plenty, nil }); whys != nil {
		t.Errorf("just enough is refused: %q", whys)
	}
	for _, short := range []tree.FreeSpace{{Bytes: minFreeBytes - 1, Files: math.MaxUint64}, {Bytes: math.MaxUint64, Files: minFreeFiles - 1}} {
		for _, at := range []string{"etc", "var/log", "var"} {
			whys := outOfSpace(p, tr, func(dir string) (tree.FreeSpace, error) {
				if dir == at {
					return short, nil
				}
				return plenty, nil
			})
			if len(whys) != 1 {
				t.Errorf("%+v at /%s: %q", short, at, whys)
			}
		}
	}
}
