package azure

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

func (c *testCloud) order(t *testing.T, f fault.Fault) string {
	t.Helper()
	name, err := c.AddFault(f)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func (c *testCloud) putGallery(t *testing.T) error {
	t.Helper()
	poller, err := c.factory.NewGalleriesClient().BeginCreateOrUpdate(t.Context(), testGroup, testGallery, armcompute.Gallery{Location: to.Ptr("westus2")}, nil)
	_, err = finish(t.Context(), poller, err)
	return err
}

func (c *testCloud) hasGallery(t *testing.T) bool {
	t.Helper()
	found := false
	c.world.store.Read(func(st *state) { found = len(st.Galleries) > 0 })
	return found
}

func TestFaultBeforeAndAfterTheEffect(t *testing.T) {
	for phase, effect := range map[fault.Phase]bool{fault.Before: false, fault.After: true} {
		c := newCloud(t, nil)
		c.order(t, fault.Fault{Resource: "gallery", Operation: "put", Phase: phase, Status: 503, Count: 1})
		wantCode(t, c.putGallery(t), http.StatusServiceUnavailable, "ServiceUnavailable")
		if got := c.hasGallery(t); got != effect {
			t.Errorf("%s: the gallery exists is %v, want %v", phase, got, effect)
		}
		if err := c.putGallery(t); err != nil {
			t.Errorf("%s: the fault struck more than once: %v", phase, err)
		}
		if got := c.Faults(); len(got) != 0 {
			t.Errorf("%s: a spent fault is listed: %v", phase, got)
		}
	}
}

func TestFaultByPathSkipsAndCounts(t *testing.T) {
	c := newCloud(t, nil)
	name := c.order(t, fault.Fault{Method: "get", Path: "/GALLERIES/sig_", Status: 500, Skip: 1, Count: 2})
	var got []int
	token := c.token(t)
	for range 4 {
		resp, _ := c.raw(t, token, "GET",
			"/subscriptions/"+testSubscription+"/resourceGroups/rg1/providers/Microsoft.Compute/galleries/SIG_rg1?api-version=1", "")
		got = append(got, resp.StatusCode)
	}
	if diff := cmp.Diff([]int{404, 500, 500, 404}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if err := c.ClearFaults(name); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddFault(fault.Fault{Path: "("}); err == nil {
		t.Error("a path that is no regular expression was taken")
	}
}

func TestLongOperationFails(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.ensureDefinition(t)
	snapshot := c.snapshot(t, "snap", 0)
	c.order(t, fault.Fault{Resource: "version", Operation: "put", Long: true, Code: "ReplicationFailed", Message: "no luck", Count: 1})
	poller, err := c.factory.NewGalleryImageVersionsClient().BeginCreateOrUpdate(t.Context(), testGroup, testGallery, testDefinition, testVersion,
		versionOf(snapshot, armcompute.StorageAccountTypeStandardLRS), nil)
	_, err = finish(t.Context(), poller, err)
	if err == nil || !strings.Contains(err.Error(), "ReplicationFailed") || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("error is %v", err)
	}
	got, err := c.factory.NewGalleryImageVersionsClient().Get(t.Context(), testGroup, testGallery, testDefinition, testVersion,
		&armcompute.GalleryImageVersionsClientGetOptions{Expand: to.Ptr(armcompute.ReplicationStatusTypesReplicationStatus)})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Properties.ProvisioningState != armcompute.GalleryProvisioningStateFailed || *got.Properties.ReplicationStatus.Summary[0].Details != "no luck" {
		t.Errorf("the version shows %s, %s", *got.Properties.ProvisioningState, *got.Properties.ReplicationStatus.Summary[0].Details)
	}
	if c.fleet.HasDisk(diskOf(*got.ID)) {
		t.Error("the failed version has content")
	}
}

func TestFailedStop(t *testing.T) {
	for phase, want := range map[fault.Phase]string{fault.Before: "running", fault.After: "stopped"} {
		c := newCloud(t, nil)
		c.pool(t, 1, nil)
		c.order(t, fault.Fault{Operation: "powerOff", Long: true, Phase: phase, Count: 1})
		poller, err := c.factory.NewVirtualMachineScaleSetVMsClient().BeginPowerOff(t.Context(), testGroup, testPool, "0", nil)
		if _, err = finish(t.Context(), poller, err); err == nil {
			t.Errorf("%s: the operation succeeded", phase)
		}
		if got := c.power(t, "0"); got != want {
			t.Errorf("%s: power is %q, want %q", phase, got, want)
		}
	}
}

func TestIgnoredDeletion(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.order(t, fault.Fault{Resource: "extension", Operation: "delete", Ignore: true, Count: 1})
	c.order(t, fault.Fault{Resource: "pool", Operation: "patch", Ignore: true, Count: 1})
	extensions := c.factory.NewVirtualMachineScaleSetExtensionsClient()
	for n, want := range []int{2, 1} {
		poller, err := extensions.BeginDelete(t.Context(), testGroup, testPool, "vmssCSE", nil)
		done(t, poller, err)
		if got := len(c.scaleSet(t).Properties.VirtualMachineProfile.ExtensionProfile.Extensions); got != want {
			t.Errorf("deletion %d leaves %d extensions, want %d", n+1, got, want)
		}
	}
	for n, want := range []int64{1, 2} {
		if err := c.patch(t, capacityOf(2)); err != nil {
			t.Fatal(err)
		}
		if got := *c.scaleSet(t).SKU.Capacity; got != want {
			t.Errorf("patch %d leaves capacity %d, want %d", n+1, got, want)
		}
	}
}

func TestDeniedActionIsRefusedAndListed(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.order(t, fault.Fault{Name: "no-snapshots", Deny: "Microsoft.Compute/snapshots/write"})
	c.order(t, fault.Fault{Deny: "Microsoft.Compute/disks/beginGetAccess/*"})
	disk := *c.instances(t)[0].Properties.StorageProfile.OSDisk.ManagedDisk.ID
	snapshots := c.factory.NewSnapshotsClient()
	_, err := snapshots.BeginCreateOrUpdate(t.Context(), testGroup, "snap", snapshotOf(disk), nil)
	wantCode(t, err, http.StatusForbidden, "AuthorizationFailed")
	for _, says := range []string{
		"The client '" + testClient + "' with object id '", "perform action 'Microsoft.Compute/snapshots/write' over scope '/subscriptions/",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the refusal does not say %q: %v", says, err)
		}
	}
	credential, err := azidentity.NewClientSecretCredential(testTenant, testClient, c.config.ClientSecret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: c.options(), DisableInstanceDiscovery: true})
	if err != nil {
		t.Fatal(err)
	}
	permissions, err := armauthorization.NewPermissionsClient(testSubscription, credential, &arm.ClientOptions{ClientOptions: c.options()})
	if err != nil {
		t.Fatal(err)
	}
	page, err := permissions.NewListForResourceGroupPager(testGroup, nil).NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var denied []string
	for _, action := range page.Value[0].NotActions {
		denied = append(denied, *action)
	}
	if diff := cmp.Diff([]string{"Microsoft.Compute/snapshots/write", "Microsoft.Compute/disks/beginGetAccess/*"}, denied); diff != "" {
		t.Errorf("denied actions (-want +got):\n%s", diff)
	}
	if _, err := permissions.NewListForResourcePager(testGroup, "Microsoft.Compute", "", "virtualMachineScaleSets", testPool,
		nil).NextPage(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.ClearFaults("no-snapshots"); err != nil {
		t.Fatal(err)
	}
	_, err = snapshots.BeginCreateOrUpdate(t.Context(), testGroup, "snap", snapshotOf(disk), nil)
	wantCode(t, err, http.StatusForbidden, "LinkedAuthorizationFailed")
}

func TestConnectionIsDropped(t *testing.T) {
	for phase, effect := range map[fault.Phase]bool{fault.Before: false, fault.After: true} {
		c := newCloud(t, nil)
		c.order(t, fault.Fault{Resource: "gallery", Drop: true, Phase: phase, Count: 1})
		if err := c.putGallery(t); err == nil {
			t.Errorf("%s: the connection held", phase)
		}
		if got := c.hasGallery(t); got != effect {
			t.Errorf("%s: the gallery exists is %v, want %v", phase, got, effect)
		}
		all := c.Requests()
		if last := all[len(all)-1]; last.Status != 0 || last.Noun != "gallery" {
			t.Errorf("%s: the book says %+v", phase, last)
		}
	}
}

func TestThrottlingByFaultAndByBucket(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.Clock.Scale = 1; c.Throttle = Throttle{ReadBurst: 3, ReadRate: 0.01} })
	c.order(t, fault.Fault{Method: "PUT", RetryAfter: 17, Count: 1})
	err := c.putGallery(t)
	wantCode(t, err, http.StatusTooManyRequests, "TooManyRequests")
	if got := retryAfter(t, err); got != "17" {
		t.Errorf("Retry-After is %q, want 17", got)
	}
	token := c.token(t)
	var got []int
	var last *http.Response
	for range 4 {
		last, _ = c.raw(t, token, "GET", "/subscriptions?api-version=1", "")
		got = append(got, last.StatusCode)
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if after := last.Header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("Retry-After is %q", after)
	}
	if stats := c.Stats(); stats.Throttled != 2 {
		t.Errorf("%d requests were counted as throttled, want 2", stats.Throttled)
	}
}

func TestTokenFaults(t *testing.T) {
	c := newCloud(t, nil)
	c.order(t, fault.Fault{Resource: "token", Operation: "post", Status: 503, Code: "temporarily_unavailable", Message: "AADSTS90033: try later", Count: 1})
	_, err := c.factory.NewGalleriesClient().Get(t.Context(), testGroup, testGallery, nil)
	if err == nil || !strings.Contains(err.Error(), "AADSTS90033") {
		t.Errorf("error is %v", err)
	}
}
