package dnf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

// History is one transaction of dnf's history.
type History struct {
	ID, ReturnCode string
	// Failed has the packages whose scripts failed. dnf exits 0, and the Return-Code is Success.
	Failed []string
}

// Lines of "Scriptlet output": 1 warning: %post(foo-2.0-1.noarch) scriptlet failed, exit status 1, and of scripts in Lua:
// error: lua script failed: [string "%post(foo-2.0-1.noarch)"]:1: message.
var failedScript = regexp.MustCompile(`(?:lua script failed: \[string ")?%\w+\(([^)]+)\)(?: scriptlet failed|"\])`)

// ParseHistory reads the output of LastTransaction; the zero History without a transaction.
func ParseHistory(output string) History {
	var h History
	for line := range strings.Lines(output) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "Transaction ID":
			h.ID = strings.TrimSpace(value)
		case "Return-Code":
			h.ReturnCode = strings.TrimSpace(value)
		}
		h.Failed = append(h.Failed, FailedScripts(line)...)
	}
	slices.Sort(h.Failed)
	h.Failed = slices.Compact(h.Failed)
	return h
}

// FailedScripts returns the packages with failed scripts in dnf's own output.
func FailedScripts(output string) (packages []string) {
	for _, m := range failedScript.FindAllStringSubmatch(output, -1) {
		packages = append(packages, m[1])
	}
	return packages
}

// Interrupted reports whether the last transaction did not end. Source: dnf, dnf/cli/output.py, historyInfoCmdOutput.
func (h History) Interrupted() bool { return strings.Contains(h.ReturnCode, "Aborted") }

// Repositories reads the output of RepoInfo. read is false after a failed MakeCache, whose output names the failed
// repository: the others were perhaps not asked.
func Repositories(repoInfo, makeCache string, read bool) (all []patch.Repository) {
	for line := range strings.Lines(repoInfo) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "Repo-id":
			all = append(all, patch.Repository{ID: value, Read: read})
		case "Repo-updated":
			if len(all) > 0 {
				all[len(all)-1].Date = date(value)
			}
		}
	}
	if read {
		return all
	}
	failed := failedRepositories(makeCache)
	for i := range all {
		all[i].Problem = "dnf stopped before it read the repository"
		if slices.Contains(failed, all[i].ID) {
			all[i].Problem = "the metadata cannot be downloaded"
		}
	}
	for _, id := range failed {
		if !slices.ContainsFunc(all, func(r patch.Repository) bool { return r.ID == id }) {
			all = append(all, patch.Repository{ID: id, Problem: "the metadata cannot be downloaded"})
		}
	}
	return all
}

var failedRepository = regexp.MustCompile(`(?m)(?:Failed to download metadata for repo|Errors during downloading metadata for repository) '([^']+)'`)

func failedRepositories(output string) (ids []string) {
	for _, m := range failedRepository.FindAllStringSubmatch(output, -1) {
		ids = append(ids, m[1])
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// date parses strftime's %c in the C locale.
func date(text string) time.Time {
	t, err := time.Parse("Mon Jan _2 15:04:05 2006", text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Reboot judges the need of a reboot by needs-restarting, and by the kernels in /boot. Without the plugin only the kernel
// is a witness, and the need is otherwise unknown.
func Reboot(needsRestarting string, kernels []string, running string) patch.RebootNeed {
	need := patch.RebootNeed{Need: patch.NeedUnknown}
	switch {
	case strings.Contains(needsRestarting, "Reboot is required"):
		need.Need, need.Witnesses = patch.Needed, []patch.Witness{patch.NeedsRestarting}
		for line := range strings.Lines(needsRestarting) {
			if name, found := strings.CutPrefix(strings.TrimSpace(line), "* "); found {
				need.Packages = append(need.Packages, name)
			}
		}
	case strings.Contains(needsRestarting, "Reboot should not be necessary"):
		need.Need = patch.NotNeeded
	}
	if newest := patch.NewestKernel(kernels); newest != "" && newest != running && slices.Contains(kernels, "vmlinuz-"+running) {
		need.Need, need.Witnesses = patch.Needed, append(need.Witnesses, patch.NewerKernel)
	}
	return need
}

// Step is what dnf was asked for.
type Step string

// Steps of an order.
const (
	StepRelease  Step = "find the newest release"
	StepUpdate   Step = "read the repositories"
	StepSimulate Step = "compute the patches"
	StepInstall  Step = "install the patches"
)

// signs of a reason in dnf's messages, the most specific first.
var signs = []struct {
	text   string
	reason patch.Reason
}{
	{"Failed to obtain the transaction lock", patch.Locked},
	{"Failed to obtain", patch.Locked},
	{"GPG signature verification error", patch.RepositoryNotTrusted},
	{"GPG check FAILED", patch.RepositoryNotTrusted},
	{"is not signed", patch.RepositoryNotTrusted},
	{"more space needed on the", patch.NoSpace},
	{"No space left on device", patch.NoSpace},
	{"Failed to download metadata for repo", patch.RepositoryNotRead},
	{"Cannot download repomd.xml", patch.RepositoryNotRead},
	{"Error downloading packages", patch.DownloadFailed},
	{"Cannot download", patch.DownloadFailed},
	{"checksum doesn't match", patch.DownloadFailed},
	{"Problem: ", patch.Unresolved},
	{"Problem 1: ", patch.Unresolved},
}

// maxComplaints limits the lines of a failure's message.
const maxComplaints = 6

// Trouble returns why a step failed, from its output and exit code. An unknown message has the reason of the step.
func Trouble(step Step, output string, code int) *patch.Failure {
	f := &patch.Failure{Reason: map[Step]patch.Reason{
		StepRelease: patch.RepositoryNotRead, StepUpdate: patch.RepositoryNotRead,
		StepSimulate: patch.Unresolved, StepInstall: patch.InstallFailed,
	}[step]}
	for _, s := range signs {
		if strings.Contains(output, s.text) {
			f.Reason = s.reason
			break
		}
	}
	if f.Reason == patch.DownloadFailed && step == StepUpdate {
		f.Reason = patch.RepositoryNotRead
	}
	var lines []string
	inError := false
	for line := range strings.Lines(patch.WithoutCredentials(output)) {
		line = strings.TrimSpace(line)
		if inError = (inError || strings.HasPrefix(line, "Error")) && line != ""; inError && len(lines) < maxComplaints {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = []string{"no message"}
	}
	f.Message = fmt.Sprintf("dnf cannot %s (exit code %d): %s", step, code, strings.Join(lines, "; "))
	return f
}
