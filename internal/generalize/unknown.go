package generalize

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/generalize/scan"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// Summarize returns the files of unknown origin of a running machine, for the comparison with a donor of the same pool.
func (r *Runner) Summarize(ctx context.Context, t *tree.Tree) (*scan.Summary, error) {
	before, err := LookBefore(t, r.Profile, r.Names...)
	if err != nil {
		return nil, err
	}
	report, err := scan.Tree(ctx, t.Dir(), scan.Options{Owner: r.Profile.Owner(r.Allow...), Base: r.Profile.Base(), Hashes: true})
	if err != nil {
		return nil, err
	}
	s, err := scan.Summarize(r.unknown(report, before))
	if err != nil {
		return nil, &Refused{Whys: []string{err.Error()}}
	}
	return s, nil
}

func (r *Runner) refusesUnknown() bool {
	return r.UnknownFiles == v1alpha1.UnknownFilesRefuse || r.UnknownFiles == v1alpha1.UnknownFilesRefuseDifferent
}

// unknown returns the files of unknown origin that no rule removes, with their hashes.
func (r *Runner) unknown(report *scan.Report, before *DonorValues) map[string]string {
	left, owner, named := maps.Clone(report.Hashes), r.Profile.Owner(r.Allow...), before.allNamed()
	maps.DeleteFunc(left, func(name, _ string) bool {
		return owner(name).Rule != "" || slices.Contains(named, tree.Rel(name))
	})
	return left
}

// maxNamed is the number of files in a refusal.
const maxNamed = 5

// whyUnknown returns why the setting refuses the files of unknown origin; empty if it does not.
func (r *Runner) whyUnknown(report *scan.Report, before *DonorValues) string {
	if !r.refusesUnknown() {
		return ""
	}
	unknown := r.unknown(report, before)
	if r.UnknownFiles == v1alpha1.UnknownFilesRefuse {
		if len(unknown) == 0 {
			return ""
		}
		return fmt.Sprintf("unknown files: %d from no package, image or base system: %s; remove the files, or exempt the paths with a reason",
			len(unknown), firstOf(slices.Sorted(maps.Keys(unknown))))
	}
	if r.Peer == nil {
		return "unknown files: the pool has no other Ready node for a comparison; add a node, or set settings.generalize.unknownFiles to Allow or Refuse"
	}
	differing := r.Peer.Differing(unknown)
	if len(differing) == 0 {
		return ""
	}
	return fmt.Sprintf("unknown files: %d have another content on node %s, and may hold an identity: %s; add a rule for the files, or exempt the paths with a reason",
		len(differing), r.PeerName, firstOf(differing))
}

// firstOf lists the first names.
func firstOf(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// whyUnknown describes the files of unknown origin, if the setting refuses them.
func (m *Manifest) whyUnknown() string {
	unknown := &m.Scan.Unknown
	if m.UnknownFiles != v1alpha1.UnknownFilesRefuse || unknown.Files == 0 {
		return ""
	}
	first := unknown.List[0]
	return fmt.Sprintf("unknown files: %d in %d directories, from no package, image or base system, the first is %s; "+
		"remove the files, or exempt the paths with a reason (the manifest lists the files by directory)", unknown.Files, unknown.Dirs, path.Join(first.Dir, first.Names[0]))
}
