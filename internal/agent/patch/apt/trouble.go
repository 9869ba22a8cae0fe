package apt

import (
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/internal/patch"
)

// sign is a part of apt's or dpkg's message that identifies a reason.
type sign struct {
	text   string
	reason patch.Reason
}

// signs, the most specific first: several messages follow each other. Source: apt 2.6 and dpkg 1.21, messages in C.
var signs = []sign{
	{"Could not get lock", patch.Locked},
	{"Unable to acquire the dpkg frontend lock", patch.Locked},
	{"is another process using it", patch.Locked},
	{"dpkg was interrupted", patch.Interrupted},
	{"No space left on device", patch.NoSpace},
	{"You don't have enough free space", patch.NoSpace},
	{"is expired (invalid since", patch.RepositoryExpired},
	{"NO_PUBKEY", patch.RepositoryNotTrusted},
	{"BADSIG", patch.RepositoryNotTrusted},
	{"EXPKEYSIG", patch.RepositoryNotTrusted},
	{"REVKEYSIG", patch.RepositoryNotTrusted},
	{"NODATA", patch.RepositoryNotTrusted},
	{"is not signed", patch.RepositoryNotTrusted},
	{"invalid signature", patch.RepositoryNotTrusted},
	{"is not valid yet", patch.RepositoryNotTrusted},
	{"Clearsigned file isn't valid", patch.RepositoryNotTrusted},
	{"There were unauthenticated packages", patch.RepositoryNotTrusted},
	{"Held packages were changed", patch.HeldPackage},
	{"Packages need to be removed but remove is disabled", patch.WouldRemove},
	{"such a release is not available in the sources", patch.RepositoryNotRead},
	{"Hash Sum mismatch", patch.DownloadFailed},
	{"File has unexpected size", patch.DownloadFailed},
	{"Unable to fetch some archives", patch.DownloadFailed},
	{"Failed to fetch", patch.DownloadFailed},
	{"unmet dependencies", patch.Unresolved},
	{"Unmet dependencies", patch.Unresolved},
	{"Unable to correct problems", patch.Unresolved},
	{"was not found", patch.Unresolved},
	{"Unable to locate package", patch.Unresolved},
}

// Step is what a program was asked for.
type Step string

// Steps of an order.
const (
	StepUpdate   Step = "read the repositories"
	StepSimulate Step = "compute the patches"
	StepInstall  Step = "install the patches"
	StepRepair   Step = "repair the interrupted package manager"
	StepKernels  Step = "remove old kernels"
)

// Trouble returns why a step failed, from its output and exit code. An unknown message has the reason of the step.
func Trouble(step Step, output string, code int) *patch.Failure {
	f := &patch.Failure{Reason: map[Step]patch.Reason{
		StepUpdate: patch.RepositoryNotRead, StepSimulate: patch.Unresolved, StepInstall: patch.InstallFailed,
		StepRepair: patch.Interrupted, StepKernels: patch.InstallFailed,
	}[step]}
	messages := complaints(output)
	for _, s := range signs {
		if strings.Contains(messages, s.text) {
			f.Reason = s.reason
			break
		}
	}
	if f.Reason == patch.DownloadFailed && step == StepUpdate {
		f.Reason = patch.RepositoryNotRead
	}
	if messages == "" {
		messages = "no message"
	}
	f.Message = fmt.Sprintf("apt cannot %s (exit code %d): %s", step, code, messages)
	return f
}

// maxComplaints limits the lines of a failure's message.
const maxComplaints = 6

// complaints are the lines of an output with errors and warnings, without credentials.
func complaints(output string) string {
	var lines []string
	goesOn := false // dpkg names the package in one line, and the cause in the next line
	for line := range strings.Lines(patch.WithoutCredentials(output)) {
		line = strings.TrimSpace(line)
		if goesOn {
			lines[len(lines)-1] += " " + line
			goesOn = false
			continue
		}
		isComplaint := strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "W: ") || strings.HasPrefix(line, "dpkg: error") ||
			strings.Contains(line, "unmet dependencies") || strings.Contains(line, "No space left on device")
		if isComplaint && len(lines) < maxComplaints {
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(line, "E: "), "W: "))
			goesOn = strings.HasPrefix(line, "dpkg: error") && strings.HasSuffix(line, ":")
		}
	}
	return strings.Join(lines, "; ")
}
