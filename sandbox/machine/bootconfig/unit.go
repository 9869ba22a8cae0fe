package bootconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
)

// service holds the settings of a unit's section [Service].
type service struct {
	command      string
	variables    map[string]string
	environments []string
	openFiles    string
}

// unitDirs holds the directories of unit files. The first file wins. Source: systemd.unit(5).
var unitDirs = []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// arguments returns the command line of a unit, with its environment. Source: systemd.service(5), systemd.exec(5).
func (f files) arguments(unit string) ([]string, error) {
	if f.masked(unit) {
		return nil, failed(unit, "Unit %s is masked.", unit)
	}
	s, found := f.service(unit)
	if !found {
		return nil, failed(unit, "Unit %s not found.", unit)
	}
	for _, path := range s.environments {
		file, optional := strings.CutPrefix(path, "-")
		text, err := f.read(file)
		if err != nil && (!optional || !errors.Is(err, fs.ErrNotExist)) {
			return nil, failed(unit, "Failed to load environment files: %w", err)
		}
		maps.Copy(s.variables, settings(string(text)))
	}
	if s.command == "" {
		return nil, failed(unit, "Service has no ExecStart= setting. Refusing.")
	}
	return s.expand(), nil
}

// service reads a unit with its drop-ins.
func (f files) service(unit string) (s service, found bool) {
	s.variables = map[string]string{}
	for _, dir := range unitDirs {
		if text, err := f.read(filepath.Join(dir, unit)); err == nil {
			s.parse(string(text))
			found = true
			break
		}
	}
	for _, path := range f.list(filepath.Join(unitDirs[0], unit+".d"), ".conf") {
		s.parse(f.text(path))
	}
	return s, found
}

// openFiles is the hard limit of a unit's open files, which its containers inherit; 0 without a limit. Source:
// systemd.exec(5), LimitNOFILE.
func (f files) openFiles(unit string) uint64 {
	s, _ := f.service(unit)
	_, hard, hasBoth := strings.Cut(s.openFiles, ":")
	if !hasBoth {
		hard = s.openFiles
	}
	limit, err := strconv.ParseUint(hard, 10, 64)
	if err != nil {
		return 0 // "infinity"
	}
	return limit
}

// parse adds a file of the unit. An empty ExecStart removes the earlier command.
func (s *service) parse(text string) {
	section := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, _ := strings.Cut(line, "=")
		if section != "[Service]" {
			continue
		}
		switch strings.TrimSpace(key) {
		case "ExecStart":
			s.command = strings.TrimSpace(value)
		case "LimitNOFILE":
			s.openFiles = strings.TrimSpace(value)
		case "EnvironmentFile":
			s.environments = append(s.environments, strings.TrimSpace(value))
		case "Environment":
			for _, assignment := range words(value) {
				name, value, _ := strings.Cut(assignment, "=")
				s.variables[name] = value
			}
		}
	}
}

// settings are the assignments of an environment file.
func settings(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		key, value, is := strings.Cut(line, "=")
		if is && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			found[strings.TrimSpace(key)] = unquoted(strings.TrimSpace(value))
		}
	}
	return found
}

func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && strings.ContainsAny(value[:1], `"'`) {
		return value[1 : n-1]
	}
	return value
}

// expand returns the arguments without the program. "$NAME" as a word of its own is split at spaces, "${NAME}" is not.
func (s *service) expand() []string {
	var all []string
	for _, word := range words(s.command) {
		if name, is := strings.CutPrefix(word, "$"); is && !strings.HasPrefix(name, "{") {
			all = append(all, words(s.variables[name])...)
			continue
		}
		for name, value := range s.variables {
			word = strings.ReplaceAll(word, fmt.Sprintf("${%s}", name), value)
		}
		all = append(all, word)
	}
	return all[min(1, len(all)):]
}

// words splits a text at spaces outside quotes, and removes the quotes.
func words(text string) []string {
	var all []string
	var word strings.Builder
	quote, open := rune(0), false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, open = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if open {
				all = append(all, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if open {
		all = append(all, word.String())
	}
	return all
}
