package apt

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/patch"
)

// Target is one configured repository, with its Release files on the disk.
type Target struct {
	// URI has no credentials. Suite is the distribution in sources.list(5), such as bookworm-security or "./".
	URI, Suite string
	// Files are the possible names of the Release file, in apt's order of preference.
	Files []string
}

// ID is how the report names the repository.
func (t Target) ID() string { return t.URI + " " + t.Suite }

// ParseTargets reads the output of TargetsArgs: one repository for all its indexes.
func ParseTargets(output string) (targets []Target) {
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 4 {
			continue
		}
		t := Target{URI: strings.TrimSuffix(patch.WithoutCredentials(fields[0]), "/"), Suite: fields[1]}
		// apt writes "/" of a key as "_", and "_" as "%5f". Source: apt, apt-pkg/contrib/strutl.cc, URItoFileName.
		key := strings.ReplaceAll(strings.ReplaceAll(fields[2], "_", "%5f"), "/", "_")
		if prefix, found := strings.CutSuffix(fields[3], key); found {
			prefix = strings.TrimPrefix(prefix, "/")
			t.Files = []string{prefix + "InRelease", prefix + "Release"}
		}
		if !slices.ContainsFunc(targets, func(known Target) bool { return known.ID() == t.ID() }) {
			targets = append(targets, t)
		}
	}
	return targets
}

// Release is the head of a Release file.
type Release struct {
	Label, Suite, Codename, Version string
	// Date of the publication, and ValidUntil; zero if absent.
	Date, ValidUntil time.Time
}

// Origin is how a simulation names the repository. Source: apt, pkgCache::VerIterator::RelStr.
func (r Release) Origin() string {
	suite := cmp.Or(r.Suite, r.Codename)
	if r.Version != "" {
		suite = r.Version + "/" + suite
	}
	if r.Label == "" {
		return suite
	}
	return r.Label + ":" + suite
}

// ParseRelease reads a Release or InRelease file. Source: the Debian repository format, section Release files.
func ParseRelease(text string) Release {
	var r Release
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Label":
			r.Label = value
		case "Suite":
			r.Suite = value
		case "Codename":
			r.Codename = value
		case "Version":
			r.Version = value
		case "Date":
			r.Date = date(value)
		case "Valid-Until":
			r.ValidUntil = date(value)
		case "MD5Sum", "SHA1", "SHA256", "SHA512":
			return r // the long lists of files follow
		}
	}
	return r
}

// Expired marks a repository whose validity has passed, and returns the failure; nil for a valid one. apt does not check a
// repository with [trusted=yes].
func Expired(r *patch.Repository, release Release, now time.Time) *patch.Failure {
	if release.ValidUntil.IsZero() || now.Before(release.ValidUntil) {
		return nil
	}
	r.Read, r.Problem = false, "valid until "+release.ValidUntil.Format(time.RFC3339)
	return &patch.Failure{Reason: patch.RepositoryExpired, Message: "repository " + r.ID + " is stale: its index was " + r.Problem}
}

func date(text string) time.Time {
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, "Mon, _2 Jan 2006 15:04:05 MST"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// A line of apt-get update: Hit:1 URI SUITE FILE, with Get, Ign or Err. An index has SUITE/COMPONENT.
var updateLine = regexp.MustCompile(`^(Hit|Get|Ign|Err):\d+ (\S+) (\S+) (?:(In)?Release\b)?`)

// unread is the problem of a repository without a message of its own.
const unread = "the repository cannot be read"

// Repositories judges each repository by the output of apt-get update. A repository is Read only if apt fetched or
// confirmed its Release file, and no message names the repository as failed.
func Repositories(targets []Target, output string) []patch.Repository {
	answered, problems := map[string]bool{}, map[string]string{}
	last := ""
	for line := range strings.Lines(patch.WithoutCredentials(output)) {
		line = strings.TrimRight(line, "\r\n")
		m := updateLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			last = owner(targets, strings.TrimSuffix(m[2], "/"), m[3])
			answered[last] = answered[last] || isAnswer(m)
			if m[1] == "Err" && problems[last] == "" {
				problems[last] = unread
			}
		case strings.HasPrefix(line, "  ") && problems[last] == unread:
			problems[last] = strings.TrimSpace(line)
		case strings.HasPrefix(line, "W: ") || strings.HasPrefix(line, "E: "):
			for _, t := range targets {
				if problems[t.ID()] == "" && names(line, t) {
					problems[t.ID()] = line[3:]
				}
			}
		}
	}
	return judge(targets, answered, problems)
}

// judge returns the repositories with the answers and problems by ID.
func judge(targets []Target, answered map[string]bool, problems map[string]string) []patch.Repository {
	repositories := make([]patch.Repository, 0, len(targets))
	for _, t := range targets {
		r := patch.Repository{ID: t.ID(), Read: answered[t.ID()] && problems[t.ID()] == "", Problem: problems[t.ID()]}
		if !r.Read && r.Problem == "" {
			r.Problem = "apt-get update does not mention the repository"
		}
		repositories = append(repositories, r)
	}
	return repositories
}

// isAnswer reports whether a line says that apt fetched or confirmed a Release file.
func isAnswer(line []string) bool {
	return (line[1] == "Hit" || line[1] == "Get") && strings.HasSuffix(line[0], "Release")
}

// owner returns the ID of the repository of a line; empty for an unknown one. A suite may contain a slash itself, so that
// the longest suite is right.
func owner(targets []Target, uri, suite string) string {
	var best Target
	for _, t := range targets {
		if t.URI == uri && (t.Suite == suite || strings.HasPrefix(suite, t.Suite+"/")) && len(t.Suite) > len(best.Suite) {
			best = t
		}
	}
	if best.Suite == "" {
		return ""
	}
	return best.ID()
}

// names reports whether a warning is about a repository: it has URI and suite, or the URL of a file of the suite.
func names(line string, t Target) bool {
	// One warning is harmless: apt 2.4 and later complain about old keyrings.
	if strings.Contains(line, "legacy trusted.gpg keyring") {
		return false
	}
	return strings.Contains(line, t.URI+"/dists/"+t.Suite+"/") || strings.Contains(line, t.URI+" "+t.Suite+" ") ||
		strings.Contains(line, t.URI+"/ "+t.Suite+" ") || strings.HasSuffix(t.Suite, "/") && strings.Contains(line, t.URI+"/"+t.Suite)
}
