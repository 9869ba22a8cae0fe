package azure

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// newSession opens a run in a simulated subscription, and counts the changes that are sent.
func newSession(t *testing.T) (*session, *realcloud.Account, *int) {
	t.Helper()
	account, end, err := simulate("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	sent := 0
	account.Intercept = func(_ context.Context, r realcloud.Request, _ bool) error {
		if r.Effect != realcloud.Reads {
			sent++
		}
		return nil
	}
	c, err := realcloud.Open(Cloud(), account, io.Discard, "rtestz", account.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Session().(*session)
	s.region = simulatedRegion
	return s, account, &sent
}

// TestGuard sends what no run sends.
func TestGuard(t *testing.T) {
	s, account, sent := newSession(t)
	ctx := t.Context()
	if _, err := s.call(ctx, http.MethodPut, s.group(), "", s.tagged(nil)); err != nil {
		t.Fatal(err)
	}
	*sent = 0
	with := func(body object, change func(object)) object {
		out := maps.Clone(body)
		change(out)
		return out
	}
	profile := func(set object) object { return at(set, "properties", "virtualMachineProfile").(object) }
	foreign := strings.Replace(s.group(), s.Name(), "someone", 1)
	for name, call := range map[string]struct {
		method, path string
		body         object
	}{
		"a call that no rule has":      {http.MethodPost, s.set(poolName) + "/deallocate", nil},
		"a call for another service":   {http.MethodPut, s.group() + "/providers/Microsoft.KeyVault/vaults/x", s.tagged(nil)},
		"another subscription":         {http.MethodDelete, strings.Replace(s.group(), simulatedSubscription, simulatedTenant, 1), nil},
		"the group of someone":         {http.MethodDelete, foreign, nil},
		"a scale set of someone":       {http.MethodDelete, strings.Replace(s.set("x"), s.Name(), "someone", 1), nil},
		"a path that leaves the group": {http.MethodDelete, s.group() + "/../someone", nil},
		"no tags":                      {http.MethodPut, s.disk("x"), object{"location": s.region, "properties": object{"creationData": object{"createOption": "Copy"}}}},
		"tags of another run": {http.MethodPut, s.gallery(), with(s.tagged(nil), func(o object) {
			o["tags"] = object{realcloud.TagRun: "rotherz", realcloud.TagEnd: s.Tags()[realcloud.TagEnd]}
		})},
		"a snapshot of someone's disk": {http.MethodPut, s.snapshot("x"), s.copyBody(foreign+"/providers/Microsoft.Compute/disks/d", nil)},
		"a subnet of someone": {http.MethodPut, s.set(poolName), with(s.poolBody(), func(o object) {
			profile(o)["networkProfile"] = object{"id": foreign + "/providers/Microsoft.Network/virtualNetworks/n"}
		})},
		"an empty disk":   {http.MethodPut, s.disk("x"), s.tagged(object{"properties": object{"creationData": object{"createOption": "Empty"}, "diskSizeGB": 8}})},
		"a large copy":    {http.MethodPut, s.disk("x"), s.copyBody(s.snapshot("y"), object{"diskSizeGB": 4096})},
		"a large machine": {http.MethodPut, s.set(poolName), with(s.poolBody(), func(o object) { o["sku"] = object{"name": "Standard_ND96", "capacity": 1} })},
		"many machines":   {http.MethodPatch, s.set(poolName), object{"sku": object{"name": smallSize, "capacity": 40}}},
		"two trials":      {http.MethodPut, s.set(trialName), with(s.trialBody(), func(o object) { o["sku"] = object{"name": smallSize, "capacity": 2} })},
		"another set":     {http.MethodPut, s.set("third"), s.poolBody()},
		"rights for a machine": {http.MethodPut, s.set(poolName), with(s.poolBody(), func(o object) {
			o["identity"] = object{"type": "SystemAssigned"}
		})},
		"a public address": {http.MethodPatch, s.set(poolName), object{"properties": object{"virtualMachineProfile": object{"networkProfile": object{
			"networkInterfaceConfigurations": []object{{"properties": object{"ipConfigurations": []object{{"properties": object{"publicIPAddressConfiguration": object{}}}}}}}}}}}},
		"a program by an extension": {http.MethodPatch, s.set(poolName), object{"properties": object{"virtualMachineProfile": object{"extensionProfile": object{
			"extensions": []object{{"properties": object{"type": "CustomScript"}}}}}}}},
		"many copies of a version": {http.MethodPut, s.version("image"), with(s.versionBody(s.snapshot("x")), func(o object) {
			o["properties"].(object)["publishingProfile"] = object{"replicaCount": 50, "targetRegions": []object{{"name": s.region}}}
		})},
	} {
		if _, err := s.call(ctx, call.method, call.path, "", call.body); !realcloud.IsRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/log", nil); err != nil {
		t.Fatal(err)
	} else if _, err := s.Do(r); !realcloud.IsRefusal(err) { //nolint:bodyclose // there is none
		t.Errorf("another host: %v", err)
	}
	if err := account.Wait(ctx, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := s.call(ctx, http.MethodPut, s.gallery(), "", s.tagged(nil)); !realcloud.IsRefusal(err) {
		t.Errorf("after the end: %v", err)
	}
	if *sent != 0 {
		t.Errorf("%d changes were sent", *sent)
	}
}

// TestForeignGroup leaves a group alone that has the run's name and no tag of it.
func TestForeignGroup(t *testing.T) {
	s, account, sent := newSession(t)
	ctx := t.Context()
	for _, path := range []string{s.group(), s.gallery()} {
		account.Transport = untagged{account.Transport}
		if path == s.group() {
			if _, err := s.call(ctx, http.MethodPut, path, "", s.tagged(nil)); err != nil {
				t.Fatal(err)
			}
			*sent = 0
			continue
		}
		if _, err := s.call(ctx, http.MethodPut, path, "", s.tagged(nil)); !realcloud.IsRefusal(err) {
			t.Errorf("a change in a group without the tag: %v", err)
		}
	}
	if _, err := s.call(ctx, http.MethodDelete, s.group(), "", nil); !realcloud.IsRefusal(err) || *sent != 0 {
		t.Errorf("the deletion of a group without the tag: %v", err)
	}
}

// untagged is a cloud that shows no tags of groups.
type untagged struct{ realcloud.Transport }

func (u untagged) Do(r *http.Request) (*http.Response, error) {
	answer, err := u.Transport.Do(r)
	if err != nil || r.Method != http.MethodGet {
		return answer, err
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(text), realcloud.TagRun+`":"`, `other":"`)))
	return answer, err
}

// TestVersionsOfAPI are those of the SDK that Kamino uses.
func TestVersionsOfAPI(t *testing.T) {
	var asked string
	factory, err := armcompute.NewClientFactory(simulatedSubscription, noCredential{}, &arm.ClientOptions{DisableRPRegistration: true,
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}, Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.Query().Get("api-version")
			return nil, io.EOF
		})}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for want, call := range map[string]func() error{
		computeAPI: func() error { _, err := factory.NewVirtualMachineScaleSetsClient().Get(ctx, "g", "s", nil); return err },
		diskAPI:    func() error { _, err := factory.NewSnapshotsClient().Get(ctx, "g", "s", nil); return err },
		galleryAPI: func() error { _, err := factory.NewGalleriesClient().Get(ctx, "g", "s", nil); return err },
	} {
		if err := call(); err == nil || asked != want {
			t.Errorf("the SDK has the version %s, not %s", asked, want)
		}
	}
}

type noCredential struct{}

func (noCredential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "none", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) Do(r *http.Request) (*http.Response, error) { return t(r) }

// TestMoment judges the times in a copy.
func TestMoment(t *testing.T) {
	asked := time.UnixMilli(1_000_000)
	m := moment{asked, asked.Add(3 * time.Second)}
	for want, l := range map[string]string{
		atMoment:                 "copy lun=0 where=scsi flushed=1001500 written=1001700",
		"older than the request": "copy lun=0 where=scsi flushed=990000 written=1001700",
		"newer than the answer":  "copy lun=0 where=scsi flushed=1001500 written=1009700",
		"no time in the copy":    "copy lun=0 where=scsi unreadable",
	} {
		lines := linesOf("[  1.0] boot\r\n\nkamino-verify " + l + "\r\nlogin: ")
		if len(lines) != 1 || lines[0].what != "copy" || lines[0].values["where"] != "scsi" {
			t.Fatalf("%+v", lines)
		}
		if got := m.judge(lines[0]); got != want {
			t.Errorf("%s: got %q, want %q", l, got, want)
		}
	}
	log := "ssh host key SHA256:abc\nkamino-verify boot uuid=1-2 address=10.0.0.4 data=yes\n"
	if kept := keepLines(log); strings.Contains(kept, "SHA256") || strings.Contains(kept, "10.0.0.4") || !strings.Contains(kept, "data=yes") {
		t.Errorf("kept: %s", kept)
	}
}
