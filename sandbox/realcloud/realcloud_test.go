package realcloud

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCompareFindsDifferences(t *testing.T) {
	base := func() *Report {
		return &Report{Checks: []Check{{Name: "a", Sentence: "A.", Seen: "one", Outcome: AsAssumed}},
			Measured: []Measure{{"exit standby", 10}, {"age of a token", 5}}, Refusals: []Refusal{{"ExitStandby", "ValidationError", "no"}}}
	}
	for name, c := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"the same":            {func(*Report) {}, ""},
		"another observation": {func(r *Report) { r.Checks[0].Seen = "two" }, "The cloud: two. The simulation: one"},
		"unclear":             {func(r *Report) { r.Checks[0].Outcome = Unclear }, "unclear"},
		"unknown check":       {func(r *Report) { r.Checks = append(r.Checks, Check{Name: "b"}) }, "no such check"},
		"missing check":       {func(r *Report) { r.Checks = nil }, "the report lacks it"},
		"slower":              {func(r *Report) { r.Measured[0].Seconds = 90 }, "the cloud 90 s, the simulation 10 s"},
		"a little slower":     {func(r *Report) { r.Measured[0].Seconds = 25 }, ""},
		"an older token":      {func(r *Report) { r.Measured[1].Seconds = 900 }, ""},
		"another text":        {func(r *Report) { r.Refusals[0].Text = "never" }, `the cloud: "never", the simulation: "no"`},
		"another code":        {func(r *Report) { r.Refusals[0].Code = "Busy" }, "which the simulation did not return"},
	} {
		t.Run(name, func(t *testing.T) {
			r := base()
			c.change(r)
			got := strings.Join(Compare(r, base()), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestChooseRun(t *testing.T) {
	now := time.Unix(1e9, 0)
	later, before := now.Add(time.Hour), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		found []Run
		run   string
		want  string
		fails string
	}{
		"new":          {want: ""},
		"named":        {run: "ra", want: "ra"},
		"continued":    {found: []Run{{"rb", later}}, want: "rb"},
		"ended":        {found: []Run{{"rb", before}}, fails: "clean --run rb"},
		"several":      {found: []Run{{"rb", later}, {"rc", later}}, fails: "--run"},
		"one of them":  {found: []Run{{"rb", later}, {"rc", later}}, run: "rc", want: "rc"},
		"named beside": {found: []Run{{"rb", later}}, run: "rd", want: "rd"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(c.found, options{run: c.run}, now)
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v", err)
				}
			case err != nil || c.want != "" && got.Name != c.want || got.Name == "" || !got.End.After(now):
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestReportHasNoSecrets(t *testing.T) {
	const tenant = "72f988bf-86f1-41AF-91ab-2d7cd011db47"
	planted := map[string]string{"account": "123456789012", "access key": "AKIAIOSFODNN7EXAMPLE", "user": "alice.smith",
		"user's ID": "AIDACKCEVSQ6C2EXAMPLE", "token": "FwoGZXIvYXdzEBYaDKMbanHgJ7Vb7hTAtw3Xq7", "mail": "alice@example.com", "instance": "i-0123456789abcdef0",
		"short ID": "vpc-1a2b3c4d", "request": "7a62c49f-347e-4fc4-9331-6e8eEXAMPLE", "tenant": tenant,
		"subscription": "11111111-2222-3333-4444-555555555555", "object ID": "0b1F6471-1bf0-4dda-AEc3-cb9272f09590", "client": "c0ffee00-0000-0000-0000-000000000001",
		"signature": "sZ9x%2BqS3rnQxT0b5Wc%3D", "bearer": "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL21hbmFnZW1lbnQ.c2lnbmF0dXJl",
		"customData": "I2Nsb3VkLWNvbmZpZwp3cml0ZV9maWxlczoK"}
	r := newReport(&Cloud{Name: "azure"}, "rtestz", "westus2", time.Unix(0, 0))
	r.Calls = []Call{{Action: "DescribeInstances", Request: map[string]any{"X-Amz-Security-Token": planted["token"], "Note": "account " + planted["account"]},
		Code: "UnauthorizedOperation", Text: "User: arn:aws:iam::" + planted["account"] + ":user/" + planted["user"] + " may not touch " + planted["instance"],
		Answer: map[string]any{"ownerId": planted["account"], "userId": planted["user's ID"], "keys": []any{planted["access key"], planted["mail"]},
			"vpcId": planted["short ID"], "sessionToken": planted["token"], "text": "session token=" + planted["token"]}},
		{Action: "PUT virtualMachineScaleSets", Request: map[string]any{"path": "/subscriptions/" + planted["subscription"] + "/resourceGroups/kamino-verify-rtestz",
			"body": map[string]any{"properties": map[string]any{"osProfile": map[string]any{"customData": planted["customData"]}}}},
			Code: "AuthorizationFailed", Text: "The client '" + planted["client"] + "' with object id '" + planted["object ID"] + "' may not write over scope " +
				"'/subscriptions/" + planted["subscription"] + "' in tenant " + planted["tenant"] + "; see " + planted["mail"],
			Answer: map[string]any{"vmId": planted["object ID"], "header": "Bearer " + planted["bearer"],
				"serialConsoleLogBlobUri": "https://md-1.blob.storage.azure.net/log?se=2026&sig=" + planted["signature"]}}}
	r.record(&wire{})
	r.Checks = []Check{{Name: "a", Seen: "no " + planted["instance"] + " of " + planted["account"] + " in " + planted["tenant"]}}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range planted {
		if strings.Contains(string(text), secret) {
			t.Errorf("the report has the %s %s:\n%s", what, secret, text)
		}
	}
	if !strings.Contains(string(text), "may not touch i-") || !strings.Contains(string(text), "may not write over scope") || !json.Valid(text) {
		t.Errorf("the report lost what it is for:\n%s", text)
	}
}
