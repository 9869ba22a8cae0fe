package scan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
)

// rules are the rules of gitleaks, from its library.
type rules struct {
	forms []signature
	// general has the set's general exceptions: placeholders, and paths of generated files.
	general []*config.Allowlist
	err     error
}

const ruleModule = "github.com/zricethezav/gitleaks/v8"

// ownForms are rules that forms of this package replace with fewer false findings. The rule for any named key has a
// list of 1,400 exceptions, which takes 30 MiB in memory.
var ownForms = []string{"generic-api-key", "private-key", "jwt", "jwt-base64", "pkcs12-file", "curl-auth-user", "github-pat", "github-oauth", "github-app-token", "github-refresh-token", "age-secret-key"}

// ruleSet reads the set. A rule's expression is compiled at its first use.
var ruleSet = sync.OnceValue(func() *rules {
	var all config.ViperConfig
	if err := toml.Unmarshal([]byte(config.DefaultConfig), &all); err != nil {
		return &rules{err: fmt.Errorf("read the rules of gitleaks: %w", err)}
	}
	r := &rules{}
	general, err := (&config.ViperConfig{AllowList: all.AllowList, Allowlists: all.Allowlists}).Translate() //nolint:staticcheck // the library's set still has the old field
	if err != nil {
		return &rules{err: fmt.Errorf("read the exceptions of gitleaks: %w", err)}
	}
	r.general = general.Allowlists
	for i := range all.Rules {
		one := config.ViperConfig{Rules: all.Rules[i : i+1]}
		if rule := &all.Rules[i]; rule.Regex != "" && len(rule.Keywords) > 0 && !slices.Contains(ownForms, rule.ID) {
			r.forms = append(r.forms, r.form(one, rule.ID, rule.Regex, rule.Keywords))
		}
	}
	return r
})

// RuleSet describes the forms with version: their numbers and their origin.
func RuleSet() (string, error) {
	r := ruleSet()
	if r.err != nil {
		return "", r.err
	}
	version, digest := "", sha256.Sum256([]byte(config.DefaultConfig))
	if info, known := debug.ReadBuildInfo(); known {
		for _, m := range info.Deps {
			if m.Path == ruleModule {
				version = " " + m.Version
			}
		}
	}
	own := len(everything().forms) - len(r.forms)
	return fmt.Sprintf("%d forms of kamino, %d rules of gitleaks%s (sha256:%s)", own, len(r.forms), version, hex.EncodeToString(digest[:4])), nil
}

// form makes a signature of one rule.
func (r *rules) form(one config.ViperConfig, id, text string, keywords []string) signature {
	rule := sync.OnceValue(func() config.Rule {
		translated, err := one.Translate()
		if err != nil { // the library reads its own rule
			panic(fmt.Sprintf("gitleaks' rule %s: %v", id, err))
		}
		return translated.Rules[id]
	})
	s := signature{
		kind: Token, what: "token (" + id + ")", anchors: keywords, back: 128, reach: 1024,
		match: func() *regexp.Regexp { return rule().Regex },
		in: func(name string, whole, secret []byte) bool {
			return r.keeps(rule(), name, string(whole), string(secret))
		},
	}
	if one.Rules[0].Path != "" {
		s.path = func() *regexp.Regexp { return rule().Path }
	}
	// The first group is the secret, unless the rule names another.
	s.group = max(1, one.Rules[0].SecretGroup)
	if standsIn(text, keywords) {
		s.inside, s.random = minToken, true
		s.named = id == accessKeyID
		return s
	}
	s.named = true
	if strings.HasPrefix(text, `(?i)[\w.-]{0,50}?`) {
		s.near = assigns
	}
	return s
}

// accessKeyID is the rule for the IDs of AWS's access keys. An ID is no secret: the secret key beside it is found by a form of
// this package. Documentation has many.
const accessKeyID = "aws-access-token"

// minToken is the length in characters of the shortest token that is recognized by its beginning.
const minToken = 20

// standsIn reports whether a rule's words are part of the secret, and not next to it.
func standsIn(expression string, keywords []string) bool {
	if strings.HasPrefix(expression, "https://") {
		return true // the address is the secret
	}
	secret := strings.ToLower(strings.ReplaceAll(firstGroup(expression), `\`, ""))
	return slices.ContainsFunc(keywords, func(word string) bool { return strings.Contains(secret, strings.ToLower(word)) }) &&
		!strings.HasPrefix(expression, `(?i)[\w.-]{0,50}?`)
}

// firstGroup returns the first capturing group of an expression; without one, the expression.
func firstGroup(expression string) string {
	begin, depth, inClass := -1, 0, false
	for i := 0; i < len(expression); i++ {
		switch c := expression[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
		case c == '(' && begin < 0 && !strings.HasPrefix(expression[i:], "(?"):
			begin = i
		case c == '(' && begin >= 0:
			depth++
		case c == ')' && begin >= 0 && depth == 0:
			return expression[begin : i+1]
		case c == ')' && begin >= 0:
			depth--
		}
	}
	return expression
}

// keeps applies the other conditions of a rule to a match in a file.
func (r *rules) keeps(rule config.Rule, name, whole, secret string) bool {
	if rule.Entropy > 0 && entropy(secret) <= rule.Entropy {
		return false
	}
	return !slices.ContainsFunc(rule.Allowlists, func(list *config.Allowlist) bool { return excludes(list, name, whole, secret) }) &&
		!slices.ContainsFunc(r.general, func(list *config.Allowlist) bool { return excludes(list, "", whole, secret) })
}

// excludes reports whether an exception of the set covers a match: one of its conditions, or all of them if the exception
// says so. The general exceptions for paths are only for secrets that have a name, see generated.
func excludes(list *config.Allowlist, name, whole, secret string) bool {
	var met []bool
	if len(list.Paths) > 0 {
		met = append(met, name != "" && list.PathAllowed(name))
	}
	if len(list.Regexes) > 0 {
		met = append(met, list.RegexTarget == "" && covers(list, secret) || list.RegexTarget != "" && list.RegexAllowed(whole))
	}
	if len(list.StopWords) > 0 {
		stop, _ := list.ContainsStopWord(secret)
		met = append(met, stop)
	}
	if list.MatchCondition == config.AllowlistMatchAnd {
		return len(met) > 0 && !slices.Contains(met, false)
	}
	return slices.Contains(met, true)
}

// covers reports whether an expression of the list matches the whole secret. A match of a part, for example 24 letters
// in a long token, does not count.
func covers(list *config.Allowlist, secret string) bool {
	return slices.ContainsFunc(list.Regexes, func(expression *regexp.Regexp) bool {
		at := expression.FindStringIndex(secret)
		return at != nil && at[0] == 0 && at[1] == len(secret)
	})
}

// generated reports whether the set ignores a path: lock files, language libraries, pictures.
func generated(name string) bool {
	return slices.ContainsFunc(ruleSet().general, func(list *config.Allowlist) bool { return list.PathAllowed(name) })
}
