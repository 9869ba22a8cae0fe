package aws

import (
	"encoding/base64"
	"path"
	"strconv"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// span is a page of a list.
type span struct{ from, to int }

// longPage is the size from which EC2 returns a list whole to requests without a size. Source: DescribeSnapshots, MaxResults.
const longPage = 1000

// page cuts a list of n into pages. With least 0, the format is Auto Scaling's (MaxRecords, NextToken). For EC2, a
// page holds least to most entries. A request without a size returns all entries; of short lists, a page.
func (w *backend) page(c *call, n, least, most int) (span, query.Element, *problem) {
	name, token, begins, size := "MaxResults", "nextToken", "NextToken", most
	switch c.service.name {
	case "autoscaling":
		name, token, size = "MaxRecords", "NextToken", 50
	case "iam":
		name, token, begins, size = "MaxItems", "Marker", "Marker", 100
	}
	if text := c.in.Get(name); text != "" {
		asked, err := strconv.Atoi(text)
		if err != nil || asked < max(least, 1) || asked > most && least > 0 {
			return span{}, query.Element{}, c.wrong("InvalidParameterValue",
				"Value ( "+text+" ) for parameter maxResults is invalid. Expecting a value in the range "+
					strconv.Itoa(max(least, 1))+" to "+strconv.Itoa(most)+".")
		}
		size = min(asked, most)
	}
	isWhole := c.service.name == "ec2" && most >= longPage && !c.in.Has(name) && !c.in.Has(begins)
	if isWhole {
		size = n
	} else if w.config.PageSize > 0 {
		size = min(size, w.config.PageSize)
	}
	from, p := c.begin(begins)
	if p != nil {
		return span{}, query.Element{}, p
	}
	from = min(from, n)
	to := min(from+size, n)
	if to == n {
		return span{from, to}, query.Element{}, nil
	}
	return span{from, to}, query.Text(token, base64.StdEncoding.EncodeToString([]byte(c.action.name+"/"+strconv.Itoa(to)))), nil
}

// listed is an answer with a page of a list.
func listed[T any](w *backend, c *call, name string, all []T, least, most int, element func(T) query.Element) (query.Element, error) {
	page, next, p := w.page(c, len(all), least, most)
	if p != nil {
		return query.Element{}, p
	}
	item := map[bool]string{true: "item", false: "member"}[c.service.name == "ec2"]
	return query.Of("", query.List(name, item, all[page.from:page.to], element), next), nil
}

// begin reads the first entry of a page from the token in a parameter.
func (c *call) begin(parameter string) (int, *problem) {
	text := c.in.Get(parameter)
	if text == "" {
		return 0, nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	rest, ok := strings.CutPrefix(string(data), c.action.name+"/")
	at, wrong := strconv.Atoi(rest)
	if err == nil && wrong == nil && ok && at >= 0 {
		return at, nil
	}
	code := "InvalidParameterValue"
	if c.service.name == "autoscaling" {
		code = "InvalidNextToken"
	}
	return 0, bad(code, "Unable to parse pagination token")
}

// wrong is an error about a parameter's value, in the service's own code.
func (c *call) wrong(code, text string) *problem {
	if c.service.name == "autoscaling" {
		code = "ValidationError"
	}
	return bad(code, "%s", text)
}

// filtered keeps the entries that match all of EC2's filters. A filter has a name and values with wildcards * and ?,
// and matches if a value matches. tagsOf returns the tags of an entry.
func filtered[T any](c *call, all []T, fields map[string]func(T) []string, tagsOf func(T) map[string]string) ([]T, *problem) {
	for _, f := range c.in.List("Filter") {
		name, wanted := f.Get("Name"), f.Texts("Value")
		has := fields[name]
		if key, ok := strings.CutPrefix(name, "tag:"); ok && tagsOf != nil {
			has = func(v T) []string {
				if value, there := tagsOf(v)[key]; there {
					return []string{value}
				}
				return nil
			}
		}
		if name == "tag-key" && tagsOf != nil {
			has = func(v T) []string {
				var keys []string
				for key := range tagsOf(v) {
					keys = append(keys, key)
				}
				return keys
			}
		}
		if has == nil {
			return nil, bad("InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		var kept []T
		for _, v := range all {
			if fits(wanted, has(v)) {
				kept = append(kept, v)
			}
		}
		all = kept
	}
	return all, nil
}

func fits(wanted, has []string) bool {
	for _, w := range wanted {
		for _, h := range has {
			if w == h || strings.ContainsAny(w, "*?") && wild(w, h) {
				return true
			}
		}
	}
	return false
}

// wild matches * and ? over any characters.
func wild(pattern, text string) bool {
	// path.Match has * stop at a slash, and knows brackets.
	plain := strings.NewReplacer("/", "\x00", "[", "\x01", `\`, "\x02")
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(text))
	return err == nil && ok
}

// byID returns the entries with these IDs, or an error; without IDs, all entries. Entries that clients do not see yet
// are missing.
func byID[T owned](w *backend, table map[string]T, ids []string, notFound func(string) *problem) ([]T, *problem) {
	if len(ids) == 0 {
		var out []T
		for _, v := range sorted(table) {
			if w.sees(v) {
				out = append(out, v)
			}
		}
		return out, nil
	}
	var out []T
	for _, id := range ids {
		v, there := table[id]
		if !there || !w.sees(v) {
			return nil, notFound(id)
		}
		out = append(out, v)
	}
	return out, nil
}

// sees reports whether clients see a resource yet.
func (w *backend) sees(o owned) bool { return o.base().Seen <= w.time.now() }
