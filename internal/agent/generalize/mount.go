package generalize

import (
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// maxMounts is the number of mounts in a refusal.
const maxMounts = 4

// RefuseMounts returns a *Refused if a file system is mounted in a tree that does not own its mounts. The mount may be
// foreign, for example a directory of the host, and rules would change it.
func RefuseMounts(t *tree.Tree) error {
	if tree.OwnsMounts(t) {
		return nil
	}
	mounts, err := tree.MountsBelow(t.Dir())
	if err != nil {
		return fmt.Errorf("list the mounts below %s: %w", t.Dir(), err)
	}
	var found []string
	for _, m := range mounts {
		if m.Dir != "/" {
			found = append(found, fmt.Sprintf("%s (%s)", m.Dir, m.Kind))
		}
	}
	if len(found) == 0 {
		return nil
	}
	named, more := found[:min(len(found), maxMounts)], ""
	if n := len(found) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return NewRefused(fmt.Sprintf(
		"a file system is mounted below %s, at %s%s, and the rules would change the files there. Unmount the file system, then try again",
		t.Dir(), strings.Join(named, ", "), more))
}
