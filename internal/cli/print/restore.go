package print

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Restore is the result of a restore of a recipe, real or in a dry run.
type Restore struct {
	Pool string `json:"pool"`
	// Secret with the saved recipe, as namespace/name, with its time, Prototype and version.
	Secret    string    `json:"secret"`
	SavedAt   time.Time `json:"savedAt,omitzero"`
	Prototype string    `json:"prototype,omitempty"`
	Version   string    `json:"version,omitempty"`
	// Change of the recipe, without content.
	Change cloud.RecipeChange `json:"change"`
	// Refusals: the restore does not run.
	Refusals []cloud.Refusal `json:"refusals,omitempty"`
	DryRun   bool            `json:"dryRun"`
	// Changed is false without a change, or for a dry run.
	Changed bool `json:"changed"`
	// Others are further Secrets with saved parts of this pool's recipe.
	Others []string `json:"others,omitempty"`
}

// RestorePlan describes the change.
func RestorePlan(r Restore) []string {
	of := ""
	if r.Prototype != "" {
		of = fmt.Sprintf(", as it was before prototype %s", r.Prototype)
	}
	if r.Change.Done {
		lines := []string{fmt.Sprintf("The recipe of pool %s already has all fields of Secret %s.", r.Pool, r.Secret)}
		return append(lines, missingLines(r.Change)...)
	}
	lines := []string{fmt.Sprintf("The recipe of pool %s%s, from Secret %s:", r.Pool, of, r.Secret)}
	lines = append(lines, recipeDiff(&r.Change, "")...)
	return append(lines, missingLines(r.Change)...)
}

// missingLines name the parts that do not return, and possible gaps of parts that return.
func missingLines(c cloud.RecipeChange) []string {
	var lines []string
	for _, part := range cloud.Unreadable(c.Adds) {
		lines = append(lines, "    ? protected settings of "+part.String()+"  (lost if there were any: no Secret given)")
	}
	for _, part := range c.Missing {
		lines = append(lines, "    ? "+part.Describe()+"  (lost: no Secret given)")
	}
	return lines
}

// WriteRestore writes the result; a dry run begins with a note.
func WriteRestore(w io.Writer, format output.Format, r Restore) error {
	if format == output.JSON || format == output.YAML {
		return output.Value(w, format, r)
	}
	var lines []string
	if r.DryRun {
		lines = append(lines, "Dry run: nothing is changed.")
	}
	lines = append(lines, RestorePlan(r)...)
	switch {
	case r.Changed:
		lines = append(lines, fmt.Sprintf("Pool %s now builds new nodes from this recipe. Running nodes do not change.", r.Pool))
		if r.Version != "" {
			lines = append(lines,
				fmt.Sprintf("Version %s stays; if the version is bad: kamino quarantine %s %s --reason TEXT. "+
					"The next capture changes the recipe again.", r.Version, r.Pool, r.Version))
		}
	case !r.Change.Done && len(r.Refusals) == 0:
		lines = append(lines, fmt.Sprintf("Pool %s would build new nodes from this recipe. Running nodes do not change.", r.Pool))
	}
	if len(r.Others) > 0 {
		lines = append(lines, fmt.Sprintf("Earlier recipes are in %s: select a Secret with --prototype or --version.", strings.Join(r.Others, ", ")))
	}
	return output.Prose(w, strings.Join(lines, "\n")+"\n")
}
