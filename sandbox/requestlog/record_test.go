package requestlog

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded enters requests, and returns the lines of the record, and the number of requests that Close returns.
func recorded(t *testing.T, requests ...Request) (lines []map[string]any, count int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cloud.log.gz")
	log := New()
	var err error
	if log.Record, err = OpenRecord(path); err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		log.Enter(r, r.Path)
	}
	if count, err = log.Record.Close(); err != nil {
		t.Fatal(err)
	}
	log.Enter(Request{Method: "GET", Path: "/late"}, "/late")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(packed); scan.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines, count
}

func TestRecord(t *testing.T) {
	get := Request{Method: "GET", Path: "/a", Status: 200, Wire: &Wire{Agent: "kamino", Query: "x=1", Out: `{"b":1}`}}
	lines, count := recorded(t, get, get,
		Request{Method: "PUT", Path: "/a", Status: 200, Wire: &Wire{In: `{"c":2}`, Out: `{"b":1}`}},
		Request{Method: "GET", Path: "/a", Status: 0},
	)
	if count != 4 || len(lines) != 4 {
		t.Fatalf("%d lines of %d requests, want 4: a late request is no part of the record", len(lines), count)
	}
	for i, want := range []map[string]any{
		{"seq": 1., "agent": "kamino", "query": "x=1", "out": map[string]any{"b": 1.}},
		{"seq": 2., "out": nil, "same": 1.},
		{"seq": 3., "in": map[string]any{"c": 2.}, "out": map[string]any{"b": 1.}, "class": "write"},
		{"seq": 4., "status": 0.},
	} {
		for name, value := range want {
			if diff := cmp.Diff(value, lines[i][name]); diff != "" {
				t.Errorf("line %d, %s: %s", i+1, name, diff)
			}
		}
	}
}

// TestRecordHoldsNoSecrets: neither credentials nor the user data of machines are in the file.
func TestRecordHoldsNoSecrets(t *testing.T) {
	secret := "hunter2" + time.Now().Format("150405")
	lines, _ := recorded(t,
		Request{Method: "PUT", Path: "/set", Wire: &Wire{In: `{"properties":{"osProfile":{"customData":"` + secret + `","adminPassword":"` + secret + `"}}}`}},
		Request{Method: "PUT", Path: "/set", Wire: &Wire{In: `{"properties":{"protectedSettings":{"script":"` + secret + `"}}}`}},
		Request{Method: "POST", Path: "/ec2/RunInstances",
			Wire: &Wire{In: "Action=RunInstances&LaunchTemplateData.UserData=" + secret,
				Out: "<R><i><userData><value>" + secret + "</value></userData></i></R>"}},
		Request{Method: "POST", Path: "/token", Class: Login, Wire: &Wire{In: "client_secret=" + secret, Out: `{"access_token":"` + secret + `"}`}},
	)
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("a secret is in %s", text)
		}
	}
}

// TestStructured: forms and XML become what JSON would say.
func TestStructured(t *testing.T) {
	for body, want := range map[string]any{
		"":                                nil,
		`{"a":[1]}`:                       map[string]any{"a": []any{1.}},
		"Action=X&Id.1=a&Id.2=b&P.Q=c":    map[string]any{"Action": "X", "Id": []any{"a", "b"}, "P": map[string]any{"Q": "c"}},
		"Tag.1.Key=k&Tag.1.Value=v":       map[string]any{"Tag": []any{map[string]any{"Key": "k", "Value": "v"}}},
		"L.member.1=a":                    map[string]any{"L": []any{"a"}},
		"<R><requestId>1</requestId></R>": map[string]any{"R": map[string]any{}},
		"<R><set><item><a>1</a></item></set><b/></R>":                map[string]any{"R": map[string]any{"set": []any{map[string]any{"a": "1"}}, "b": ""}},
		"<R><l><member>1</member><member>2</member></l></R>":         map[string]any{"R": map[string]any{"l": []any{"1", "2"}}},
		"<?xml version=\"1.0\"?><R xmlns=\"u\"><a>x &amp; y</a></R>": map[string]any{"R": map[string]any{"a": "x & y"}},
	} {
		if diff := cmp.Diff(want, Structured(body)); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}
