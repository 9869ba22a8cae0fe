package generalize

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/scan"
)

// Reasons are why a disk must not be copied.
type Reasons struct {
	// Whys has one sentence for each rule that refuses or is not met.
	Whys []string
	// Findings are the first findings of the search, and Count is the number of all.
	Findings []scan.Finding
	Count    int
}

func (r *Reasons) none() bool { return len(r.Whys) == 0 && r.Count == 0 }

// maxWhys is the number of reasons in the error text. Lines and the manifest have more.
const maxWhys = 8

// String returns the first reasons in one line, for a status or a log.
func (r *Reasons) String() string {
	whys := slices.Clone(r.Whys)
	for i := range r.Findings {
		whys = append(whys, whyFound(&r.Findings[i]))
	}
	more := max(0, r.Count-len(r.Findings))
	if n := len(whys) - maxWhys; n > 0 {
		whys, more = whys[:maxWhys], more+n
	}
	text := strings.Join(whys, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return Printable(text)
}

// Lines returns each reason in a line of its own. Findings with one remedy follow each other, and the remedy follows them.
func (r *Reasons) Lines() (lines []string) {
	for _, why := range r.Whys {
		lines = append(lines, Printable(why))
	}
	var byRule []string // groups of findings, in the order of the findings
	for i := range r.Findings {
		if rule := remedyOf(&r.Findings[i]); !slices.Contains(byRule, rule) {
			byRule = append(byRule, rule)
		}
	}
	for _, rule := range byRule {
		var paths []string
		for i := range r.Findings {
			f := &r.Findings[i]
			if remedyOf(f) != rule {
				continue
			}
			lines = append(lines, Printable(f.What+" in "+f.Where()))
			if f.Path != "" && !slices.Contains(paths, f.Path) {
				paths = append(paths, f.Path)
			}
		}
		lines = append(lines, remedy(rule, paths)...)
	}
	if more := r.Count - len(r.Findings); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// remedyOf groups findings: by rule, and those in an initramfs.
func remedyOf(f *scan.Finding) string {
	if f.Rule == "" && isInitramfs(f.Path) {
		return rebuild
	}
	return f.Rule
}

// remedy returns the lines after findings: what to do, and the exemption for a file with rules.
func remedy(rule string, paths []string) []string {
	if rule == rebuild {
		return []string{"  " + rebuild + "."}
	}
	if rule != "" {
		return []string{"  Rule " + rule + " removes such files, but did not remove these. Run kamino-node generalize again, or remove the files."}
	}
	lines := []string{"  No rule covers these paths: remove the files, add a rule, or exempt the paths with a reason in your own rules (--profile-file):"}
	if len(paths) == 0 {
		return lines
	}
	lines = append(lines, "    exempt:", "      - paths:")
	for _, p := range paths {
		lines = append(lines, fmt.Sprintf("          - %q", asPattern(p)))
	}
	return append(lines, `        reason: "say why each copy may have them"`)
}

// asPattern returns a pattern that matches only the path; for a path with a masked name, the directory's entries.
func asPattern(p string) string {
	pattern := "/" + literal(strings.TrimPrefix(p, "/"))
	if strings.ContainsAny(path.Base(p), "…<") {
		return path.Dir(pattern) + "/*"
	}
	return pattern
}

// rebuild is the remedy for an initramfs, which boots the machine and cannot be removed.
const rebuild = "An initramfs has files of the machine that it was built for. Build it without them: dracut --force --no-hostonly --regenerate-all " +
	"(and hostonly=no in /etc/dracut.conf.d), or update-initramfs -u -k all; then build unified kernel images again with kernel-install add-all"

// isInitramfs reports whether a path is that of an initramfs, or of a unified kernel image, which has one. Source: dracut(8),
// initramfs-tools(7), kernel-install(8).
func isInitramfs(p string) bool {
	isOfBoot := strings.HasPrefix(p, "/boot/") || strings.HasPrefix(p, "/efi/")
	return isOfBoot && (strings.HasPrefix(path.Base(p), "init") && path.Ext(p) != ".conf" || path.Ext(p) == ".efi")
}

// whyFound describes a finding in a sentence.
func whyFound(f *scan.Finding) string {
	if f.Rule != "" {
		return fmt.Sprintf("%s in %s; rule %s should have removed the file", f.What, f.Where(), f.Rule)
	}
	if isInitramfs(f.Path) {
		return fmt.Sprintf("%s in %s. %s", f.What, f.Where(), rebuild)
	}
	return fmt.Sprintf("%s in %s; no rule covers the path: remove the file, add a rule, or exempt the path with a reason", f.What, f.Where())
}

// Counted returns a number with its noun in the right form.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ends := strings.CutSuffix(noun, "y"); ends {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
