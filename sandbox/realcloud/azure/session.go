package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// session is a run of the program on Azure.
type session struct {
	*realcloud.Course
	client       *arm.Client
	subscription string
	region       string

	mu sync.Mutex
	// owned: Azure has shown the tag of the run on the group. consoles are the addresses of logs that Azure named.
	owned    bool
	consoles map[string]bool

	// Results of acts that answer several checks, once in a session.
	seen map[string]map[string]string
}

var _ realcloud.Session = (*session)(nil)

// moduleVersion is only for the name of the client in requests; the SDK refuses versions that a build may have.
const moduleVersion = "v1.0.0"

// open makes a session. Its client sends through the course; only the credential's own requests do not.
func open(t target, c *realcloud.Course) (*session, error) {
	s := &session{Course: c, subscription: t.subscription, consoles: map[string]bool{}, seen: map[string]map[string]string{}}
	var err error
	s.client, err = arm.NewClient("kamino-verify-cloud", moduleVersion, t.credential, &arm.ClientOptions{
		DisableRPRegistration: true, ClientOptions: policy.ClientOptions{Cloud: t.cloud, Transport: c}})
	return s, err
}

// Versions of the APIs, which are those of Kamino's SDK.
const (
	computeAPI   = "2026-04-01"
	diskAPI      = "2026-03-02"
	galleryAPI   = "2025-12-03"
	networkAPI   = "2024-05-01"
	resourcesAPI = "2021-04-01"
)

// apiOf is the version of the API for a path.
func apiOf(path string) string {
	switch {
	case strings.Contains(path, "/galleries/"):
		return galleryAPI
	case strings.Contains(path, "/snapshots/"), strings.Contains(path, "/disks/"):
		return diskAPI
	case strings.Contains(path, "/Microsoft.Compute/"):
		return computeAPI
	case strings.Contains(path, "/Microsoft.Network/"):
		return networkAPI
	}
	return resourcesAPI
}

// answer is that of a call.
type answer struct {
	object
	header http.Header
	raw    *http.Response
}

// call sends a request. header is for conditions, as "If-Match: x"; empty for none.
func (s *session) call(ctx context.Context, method, path, header string, body any) (answer, error) {
	path, query, _ := strings.Cut(path, "?")
	r, err := runtime.NewRequest(ctx, method, runtime.JoinPaths(s.client.Endpoint(), path))
	if err != nil {
		return answer{}, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return answer{}, err
	}
	values.Set("api-version", apiOf(path))
	r.Raw().URL.RawQuery = strings.ReplaceAll(values.Encode(), "+", "%20")
	r.Raw().Header.Set("Accept", "application/json")
	if key, value, is := strings.Cut(header, ": "); is {
		r.Raw().Header.Set(key, value)
	}
	if body != nil {
		if err := runtime.MarshalAsJSON(r, body); err != nil {
			return answer{}, err
		}
	}
	raw, err := s.client.Pipeline().Do(r)
	if err != nil {
		return answer{}, err
	}
	if raw.StatusCode >= http.StatusBadRequest {
		return answer{}, runtime.NewResponseError(raw)
	}
	out := answer{header: raw.Header, raw: raw}
	if text, err := runtime.Payload(raw); err == nil && len(text) > 0 {
		err = runtime.UnmarshalAsJSON(raw, &out.object)
		return out, err
	}
	return out, nil
}

func (s *session) get(ctx context.Context, path string) (object, error) {
	out, err := s.call(ctx, http.MethodGet, path, "", nil)
	return out.object, err
}

// find is a resource; nil if there is none.
func (s *session) find(ctx context.Context, path string) (object, error) {
	out, err := s.get(ctx, path)
	if isMissing(err) {
		return nil, nil
	}
	return out, err
}

// finish waits for the end of the operation that a call began.
func (s *session) finish(ctx context.Context, what string, began answer, err error) error {
	if err != nil {
		return err
	}
	poller, err := runtime.NewPoller[object](began.raw, s.client.Pipeline(), nil)
	if err != nil {
		return err
	}
	if err := s.Until(ctx, what, longest, func() (bool, error) {
		if poller.Done() {
			return true, nil
		}
		_, err := poller.Poll(ctx)
		return err == nil && poller.Done(), err
	}); err != nil {
		return err
	}
	_, err = poller.Result(ctx)
	return err
}

// do is a call up to the end of its operation, whose time it measures.
func (s *session) do(ctx context.Context, what, method, path string, body any) error {
	began := s.Now()
	out, err := s.call(ctx, method, path, "", body)
	if err := s.finish(ctx, what, out, err); err != nil {
		return err
	}
	s.Measure(what, s.Now().Sub(began))
	return nil
}

// longest is how long the slowest operation may take: the replication of a version.
const longest = 60 * time.Minute

// ensure makes a resource, or waits until the one of an interrupted run is made.
func (s *session) ensure(ctx context.Context, what, path string, body func() object) error {
	found, err := s.find(ctx, path)
	if err != nil {
		return err
	}
	if found == nil {
		return s.do(ctx, what, http.MethodPut, path, body())
	}
	return s.Until(ctx, what, longest, func() (bool, error) {
		switch state := text(found, "properties", "provisioningState"); state {
		case "Succeeded":
			return true, nil
		case "Failed", "Canceled":
			return false, fmt.Errorf("%s: %s", what, state)
		}
		found, err = s.get(ctx, path)
		return false, err
	})
}

// Paths of the run's resources. A gallery's name is unique in a subscription, and has no dashes.
func (s *session) group() string {
	return "/subscriptions/" + s.subscription + "/resourceGroups/" + s.Name()
}

func (s *session) compute(path string) string {
	return s.group() + "/providers/Microsoft.Compute/" + path
}

func (s *session) network() string {
	return s.group() + "/providers/Microsoft.Network/virtualNetworks/net"
}

func (s *session) gallery() string     { return s.compute("galleries/kamino_verify_" + s.Run) }
func (s *session) set(n string) string { return s.compute("virtualMachineScaleSets/" + n) }

func (s *session) vm(set, number string) string { return s.set(set) + "/virtualMachines/" + number }

// code is the code of Azure's error; empty for other errors.
func code(err error) string {
	var e *azcore.ResponseError
	if errors.As(err, &e) {
		if e.ErrorCode != "" {
			return e.ErrorCode
		}
		return http.StatusText(e.StatusCode)
	}
	return ""
}

func status(err error) int {
	var e *azcore.ResponseError
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}

func isMissing(err error) bool { return status(err) == http.StatusNotFound }

// Code implements realcloud.Session.
func (s *session) Code(err error) string { return code(err) }

// Who implements realcloud.Session.
func (s *session) Who(ctx context.Context) (string, error) {
	out, err := s.get(ctx, "/subscriptions/"+s.subscription)
	return text(out, "displayName") + " " + s.subscription, err
}

// listed are the resource groups with a tag of a run.
func (s *session) listed(ctx context.Context) (all []object, err error) {
	path := "/subscriptions/" + s.subscription + "/resourcegroups?$filter=" + url.QueryEscape("tagName eq '"+realcloud.TagRun+"'")
	for range 20 {
		page, err := s.get(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, list(page, "value")...)
		next, err := url.Parse(text(page, "nextLink"))
		if err != nil || next.Path == "" {
			return all, err
		}
		path = next.Path + "?" + next.RawQuery
	}
	return nil, errors.New("the list of resource groups does not end")
}

// Runs implements realcloud.Session.
func (s *session) Runs(ctx context.Context) ([]realcloud.Run, error) {
	groups, err := s.listed(ctx)
	found := map[string][]string{}
	for _, g := range groups {
		name := text(g, "tags", realcloud.TagRun)
		found[name] = append(found[name], text(g, "tags", realcloud.TagEnd))
	}
	return realcloud.RunsOf(found), err
}

// Sweep implements realcloud.Session. The group goes with everything in it.
func (s *session) Sweep(ctx context.Context) (left int, err error) {
	groups, err := s.listed(ctx)
	if err != nil {
		return 0, err
	}
	for _, g := range groups {
		if text(g, "tags", realcloud.TagRun) != s.Run {
			continue
		}
		left++
		if text(g, "properties", "provisioningState") == "Deleting" {
			continue
		}
		if _, err := s.call(ctx, http.MethodDelete, s.group(), "", nil); err != nil && !isMissing(err) {
			return left, err
		}
		fmt.Fprintf(s.Out, "removed: the resource group and all in it\n")
	}
	return left, nil
}

// readConsole returns what a machine's program has said since its creation.
func (s *session) readConsole(ctx context.Context, vm string) ([]line, error) {
	out, err := s.call(ctx, http.MethodPost, vm+"/retrieveBootDiagnosticsData", "", nil)
	if err != nil {
		return nil, err
	}
	where, err := url.Parse(text(out.object, "serialConsoleLogBlobUri"))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.consoles[where.Host+where.Path] = true
	s.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return nil, err
	}
	log, err := s.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Body.Close() }() // it was read
	text, err := io.ReadAll(log.Body)
	switch {
	case err != nil:
		return nil, err
	case log.StatusCode == http.StatusNotFound: // no machine has written yet
		return nil, nil
	case log.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the log of a console: %s", log.Status)
	}
	return linesOf(string(text)), nil
}
