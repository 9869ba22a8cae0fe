package generalize

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Summarize returns the files of unknown origin of a running machine, for the comparison with a donor of the same pool.
// The key is secret.
func (r *Runner) Summarize(ctx context.Context, t *tree.Tree, key []byte) (*scan.Summary, error) {
	before, err := LookBefore(t, r.Profile, r.Names...)
	if err != nil {
		return nil, err
	}
	later, err := r.effects(t, before)
	if err != nil {
		return nil, err
	}
	hashes, err := scan.Hashes(ctx, t.Dir(), Base(r.Profile), later.of)
	if err != nil {
		return nil, err
	}
	s, err := scan.Summarize(r.unknown(hashes), key)
	if err != nil {
		return nil, NewRefused(err.Error())
	}
	return s, nil
}

// unknown returns the files of unknown origin that stay, from the hashes of all such files after the run.
func (r *Runner) unknown(hashes map[string]string) map[string]string {
	left, owner := maps.Clone(hashes), Owner(r.Profile, r.Allow...)
	maps.DeleteFunc(left, func(name, _ string) bool { return owner(name).Keeps != "" })
	return left
}

// maxNamed is the number of files in a refusal.
const maxNamed = 5

// whyUnknown returns why the setting refuses the files of unknown origin, or only a note about a comparison; both are
// empty if the setting allows the files.
func (r *Runner) whyUnknown(report *scan.Report) (why, note string) {
	if !r.UnknownFiles.Compares() {
		return whyRefused(r.UnknownFiles, &report.Unknown), ""
	}
	different, note := r.differing(r.unknown(report.Hashes))
	switch {
	case r.UnknownFiles == v1alpha1.UnknownFilesReportDifferent:
		return "", note
	case r.Peer == nil:
		return note + ". Add a node, or set settings.generalize.unknownFiles to ReportDifferent", ""
	case different > 0:
		return note, ""
	default:
		return "", note
	}
}

// differing compares the files with the other machine, and describes the result.
func (r *Runner) differing(unknown map[string]string) (different int, note string) {
	switch {
	case r.Peer == nil && r.PeerName == "":
		return 0, "unknown files: not compared, because the pool has no other Ready node"
	case r.Peer == nil:
		return 0, fmt.Sprintf("unknown files: not compared, because the inspection of node %s failed", r.PeerName)
	}
	names := r.Peer.Differing(unknown)
	if len(names) == 0 {
		return 0, fmt.Sprintf("unknown files: none of %d has another content on node %s", len(unknown), r.PeerName)
	}
	return len(names), fmt.Sprintf("unknown files: %d have another content on node %s, and may hold an identity: %s; add a rule for the files, or exempt the paths with a reason",
		len(names), r.PeerName, firstOf(names))
}

// noteEqual adds to each finding that the other machine has the same file: such a file says nothing about the donor. The finding
// still refuses, because an image gives the content to all readers.
func (r *Runner) noteEqual(report *scan.Report) {
	for i := range report.Findings {
		f := &report.Findings[i]
		if content := report.Hashes[f.Path]; content != "" && r.Peer != nil && r.Peer.Equal(f.Path, content) {
			f.What += fmt.Sprintf(" (node %s has the same file)", r.PeerName)
		}
	}
}

// firstOf lists the first names.
func firstOf(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// whyRefused describes the files of unknown origin, if the setting refuses them.
func whyRefused(setting v1alpha1.UnknownFiles, unknown *scan.Directories) string {
	if setting != v1alpha1.UnknownFilesRefuse || unknown.Files == 0 {
		return ""
	}
	first := unknown.List[0]
	return fmt.Sprintf("unknown files: %d in %s, from no package, image or base system, the first is %s; "+
		"remove the files, or exempt the paths with a reason (the manifest lists the files by directory)", unknown.Files, Counted(unknown.Dirs, "directory"), path.Join(first.Dir, first.Names[0]))
}
