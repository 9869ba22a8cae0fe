package region

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// AzureOptions are options for Azure only.
type AzureOptions struct {
	// NoZRS removes zone-redundant storage from the region.
	NoZRS bool
	// Latencies override simulated durations, Throttle the cloud's patience.
	Latencies azure.Latencies
	Throttle  azure.Throttle
	// Granted are the actions of the service principal GrantedClientID, which has the secret of the administrator's.
	Granted []string
}

// GrantedClientID is the service principal with the published role. The service principal of the sandbox has all rights.
const GrantedClientID = "5a4db0c5-8000-4000-8000-000000000001"

// Azure is a resource group of the simulated Azure.
type Azure struct {
	*azure.Server
	config Config
	// principal is a service principal with all rights, for clients of the real SDK. The first call logs in.
	principal func() (principal, error)
}

type principal struct {
	credential azcore.TokenCredential
	options    *arm.ClientOptions
}

var _ Region = (*Azure)(nil)

// NewAzure opens Azure on the state in the directory.
func NewAzure(c Config, o AzureOptions) (*Azure, error) {
	f := c.Facts
	server, err := azure.New(azure.Config{
		Dir: c.Dir, Clock: c.Clock, Fleet: c.Fleet,
		SubscriptionID: f.SubscriptionID, TenantID: f.TenantID, ResourceGroup: f.ResourceGroup, Location: f.Location,
		ClientID: f.ClientID, ClientSecret: f.ClientSecret, Roles: map[string][]string{GrantedClientID: o.Granted},
		ZRS: !o.NoZRS, Latencies: o.Latencies, Throttle: o.Throttle,
		IdentityHeader: f.IdentityHeader, SystemIdentity: f.SystemIdentity,
		UserIdentities: []azure.Identity{{ClientID: f.UserIdentity, ObjectID: f.UserIdentity, ResourceID: fmt.Sprintf(
			"/subscriptions/%s/resourceGroups/%s/providers/Microsoft.ManagedIdentity/userAssignedIdentities/kamino", f.SubscriptionID, f.ResourceGroup)}},
		Certificate: c.Certificate, Record: c.Record,
	})
	return &Azure{Server: server, config: c, principal: sync.OnceValues(func() (principal, error) { return newPrincipal(c) })}, err
}

// MakePool implements Region. The machines get power at once, to keep the start short, and then boot and bootstrap as
// usual.
func (a *Azure) MakePool(ctx context.Context, spec pool.Spec, userData string) error {
	return a.CreatePool(ctx, spec.Azure(userData))
}

// scaleSetID is the resource ID of a pool's scale set.
func (a *Azure) scaleSetID(spec pool.Spec) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachineScaleSets/%s",
		a.config.Facts.SubscriptionID, a.config.Facts.ResourceGroup, spec.ScaleSet())
}

// Owns implements Region.
func (a *Azure) Owns(spec pool.Spec) func(*corev1.Node) bool {
	prefix := strings.ToLower("azure://" + a.scaleSetID(spec) + "/virtualMachines/")
	return func(node *corev1.Node) bool { return strings.HasPrefix(strings.ToLower(node.Spec.ProviderID), prefix) }
}

// owns compares the machines, because a standalone VM names no pool.
func (a *Azure) owns(pool string) func(*corev1.Node) bool {
	own := map[string]bool{}
	for _, s := range a.Specs() {
		if s.Pool == pool {
			own[strings.ToLower(s.ProviderID)] = true
		}
	}
	return func(node *corev1.Node) bool { return own[strings.ToLower(node.Spec.ProviderID)] }
}

func newPrincipal(c Config) (principal, error) {
	client, err := c.Servers.Client()
	if err != nil {
		return principal{}, err
	}
	options := azcore.ClientOptions{
		Cloud: azcloud.Configuration{
			ActiveDirectoryAuthorityHost: c.Servers.Cloud + "/",
			Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
				azcloud.ResourceManager: {Endpoint: c.Servers.Cloud, Audience: c.Servers.Audience()},
			},
		},
		Transport: client,
		Telemetry: policy.TelemetryOptions{ApplicationID: "sandbox-autoscaler"},
	}
	credential, err := azidentity.NewClientSecretCredential(c.Facts.TenantID, c.Facts.ClientID, c.Facts.ClientSecret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: true})
	return principal{credential, &arm.ClientOptions{ClientOptions: options}}, err
}

// clientOf makes a client of the real SDK for the simulated Azure.
func clientOf[C any](a *Azure, made func(string, azcore.TokenCredential, *arm.ClientOptions) (*C, error)) (*C, error) {
	who, err := a.principal()
	if err != nil {
		return nil, err
	}
	return made(a.config.Facts.SubscriptionID, who.credential, who.options)
}

// scaleSets is a client of the simulated Azure, made as an autoscaler makes its own.
func (a *Azure) scaleSets() (*armcompute.VirtualMachineScaleSetsClient, error) {
	return clientOf(a, armcompute.NewVirtualMachineScaleSetsClient)
}

// virtualMachines are standalone VMs.
func (a *Azure) virtualMachines() (*armcompute.VirtualMachinesClient, error) {
	return clientOf(a, armcompute.NewVirtualMachinesClient)
}

// instances of scale sets.
func (a *Azure) instances() (*armcompute.VirtualMachineScaleSetVMsClient, error) {
	return clientOf(a, armcompute.NewVirtualMachineScaleSetVMsClient)
}

// Pool implements Region.
func (a *Azure) Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error) {
	client, err := a.scaleSets()
	if err != nil {
		return control.Pool{}, false, err
	}
	got, err := client.Get(ctx, a.config.Facts.ResourceGroup, spec.ScaleSet(), nil)
	if missing(err) {
		return control.Pool{}, false, nil
	}
	if err != nil {
		return control.Pool{}, false, err
	}
	p := control.Pool{Spec: spec, Group: spec.ScaleSet(), ID: a.scaleSetID(spec), Image: imageOf(got.VirtualMachineScaleSet),
		Extensions: extensionsOf(got.VirtualMachineScaleSet)}
	if got.SKU != nil && got.SKU.Capacity != nil {
		p.Capacity = *got.SKU.Capacity
	}
	return p, true, nil
}

func imageOf(set armcompute.VirtualMachineScaleSet) string {
	if set.Properties == nil || set.Properties.VirtualMachineProfile == nil || set.Properties.VirtualMachineProfile.StorageProfile == nil {
		return ""
	}
	return imageText(set.Properties.VirtualMachineProfile.StorageProfile.ImageReference)
}

// imageText is an image as instances have it: a version's ID, or the parts of a platform image; empty without an image.
func imageText(ref *armcompute.ImageReference) string {
	if ref == nil {
		return ""
	}
	var parts []string
	for _, part := range []*string{ref.ID, ref.Publisher, ref.Offer, ref.SKU, ref.Version} {
		if part != nil {
			parts = append(parts, *part)
		}
	}
	return strings.Join(parts, ":")
}

func extensionsOf(set armcompute.VirtualMachineScaleSet) []string {
	names := []string{}
	if set.Properties == nil || set.Properties.VirtualMachineProfile == nil || set.Properties.VirtualMachineProfile.ExtensionProfile == nil {
		return names
	}
	for _, e := range set.Properties.VirtualMachineProfile.ExtensionProfile.Extensions {
		if e != nil && e.Name != nil {
			names = append(names, *e.Name)
		}
	}
	return names
}

// Resize implements Region.
func (a *Azure) Resize(ctx context.Context, spec pool.Spec, nodes int64) (int64, func(context.Context) error, error) {
	client, err := a.scaleSets()
	if err != nil {
		return 0, nil, err
	}
	got, err := client.Get(ctx, a.config.Facts.ResourceGroup, spec.ScaleSet(), nil)
	if err != nil {
		return 0, nil, err
	}
	poller, err := client.BeginUpdate(ctx, a.config.Facts.ResourceGroup, spec.ScaleSet(), armcompute.VirtualMachineScaleSetUpdate{
		SKU: &armcompute.SKU{Name: got.SKU.Name, Tier: got.SKU.Tier, Capacity: to.Ptr(nodes)},
	}, nil)
	if err != nil {
		return 0, nil, brief(err)
	}
	return *got.SKU.Capacity, func(ctx context.Context) error {
		_, err := poller.PollUntilDone(ctx, nil)
		return brief(err)
	}, nil
}

// Snapshots implements Region.
func (a *Azure) Snapshots(ctx context.Context) ([]string, error) {
	client, err := clientOf(a, armcompute.NewSnapshotsClient)
	if err != nil {
		return nil, err
	}
	var names []string
	for pager := client.NewListByResourceGroupPager(a.config.Facts.ResourceGroup, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		for _, s := range page.Value {
			names = append(names, *s.Name)
		}
	}
	return names, nil
}

// Disks are all disks of the resource group that belong to no instance, as returned by the SDK.
func (a *Azure) Disks(ctx context.Context) (all []*armcompute.Disk, err error) {
	client, err := clientOf(a, armcompute.NewDisksClient)
	if err != nil {
		return nil, err
	}
	for pager := client.NewListByResourceGroupPager(a.config.Facts.ResourceGroup, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		for _, d := range page.Value {
			if d.ManagedBy == nil {
				all = append(all, d)
			}
		}
	}
	return all, nil
}

// VM is a standalone VM, as returned by the SDK; nil without one.
func (a *Azure) VM(ctx context.Context, name string) (*armcompute.VirtualMachine, error) {
	client, err := a.virtualMachines()
	if err != nil {
		return nil, err
	}
	got, err := client.Get(ctx, a.config.Facts.ResourceGroup, name, nil)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return &got.VirtualMachine, nil
}

// ScaleSets are all scale sets of the resource group, in no order, as returned by the SDK.
func (a *Azure) ScaleSets(ctx context.Context) ([]*armcompute.VirtualMachineScaleSet, error) {
	client, err := a.scaleSets()
	if err != nil {
		return nil, err
	}
	var all []*armcompute.VirtualMachineScaleSet
	for pager := client.NewListPager(a.config.Facts.ResourceGroup, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		all = append(all, page.Value...)
	}
	return all, nil
}

// Versions implements Region.
func (a *Azure) Versions(ctx context.Context, spec pool.Spec) ([]Version, error) {
	return a.versions(ctx, spec.ScaleSet())
}

// versions of the images of a line.
func (a *Azure) versions(ctx context.Context, line string) ([]Version, error) {
	client, err := clientOf(a, armcompute.NewGalleryImageVersionsClient)
	if err != nil {
		return nil, err
	}
	gallery := "SIG_" + strings.ReplaceAll(a.config.Facts.ResourceGroup, "-", "_")
	var all []Version
	for pager := client.NewListByGalleryImagePager(a.config.Facts.ResourceGroup, gallery, "kamino-"+line+"-prototype", nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if missing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, brief(err)
		}
		for _, v := range page.Value {
			complete := v.Properties != nil && v.Properties.ProvisioningState != nil &&
				*v.Properties.ProvisioningState == armcompute.GalleryProvisioningStateSucceeded
			found := Version{Complete: complete, Name: *v.Name, ID: *v.ID, Disk: fleet.DiskID(strings.ToLower(*v.ID)), Tags: map[string]string{}}
			for key, value := range v.Tags {
				found.Tags[key] = *value
			}
			all = append(all, found)
		}
	}
	return all, nil
}

// Instances implements Region.
func (a *Azure) Instances(ctx context.Context, spec pool.Spec) ([]string, error) {
	all, err := a.MembersOf(ctx, spec.ScaleSet())
	var ids []string
	for _, i := range all {
		ids = append(ids, *i.ID)
	}
	return ids, err
}

// Protected implements Region.
func (a *Azure) Protected(ctx context.Context, spec pool.Spec) ([]string, error) {
	all, err := a.MembersOf(ctx, spec.ScaleSet())
	var ids []string
	for _, i := range all {
		if p := i.Properties.ProtectionPolicy; p != nil && p.ProtectFromScaleIn != nil && *p.ProtectFromScaleIn {
			ids = append(ids, *i.ID)
		}
	}
	return ids, err
}

// MembersOf returns the instances of a scale set, from the SDK.
func (a *Azure) MembersOf(ctx context.Context, set string) ([]*armcompute.VirtualMachineScaleSetVM, error) {
	return a.members(ctx, set, nil)
}

// members returns the instances of a scale set, with list options.
func (a *Azure) members(ctx context.Context, set string,
	with *armcompute.VirtualMachineScaleSetVMsClientListOptions) ([]*armcompute.VirtualMachineScaleSetVM, error) {
	client, err := a.instances()
	if err != nil {
		return nil, err
	}
	var all []*armcompute.VirtualMachineScaleSetVM
	for pager := client.NewListPager(a.config.Facts.ResourceGroup, set, with); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, brief(err)
		}
		all = append(all, page.Value...)
	}
	return all, nil
}

// Remove implements Region.
func (a *Azure) Remove(ctx context.Context, m machine.Status) error {
	client, err := a.scaleSets()
	if err != nil {
		return err
	}
	poller, err := client.BeginDeleteInstances(ctx, a.config.Facts.ResourceGroup, path.Base(m.Pool),
		armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIDs: []*string{to.Ptr(path.Base(m.ID))}}, nil)
	if err != nil {
		return brief(err)
	}
	_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Second})
	return brief(err)
}

func missing(err error) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && response.StatusCode == http.StatusNotFound
}

// brief leaves the cloud's own sentence of an error that the SDK prints on ten lines.
func brief(err error) error {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return err
	}
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if response.RawResponse != nil && response.RawResponse.Body != nil {
		if json.NewDecoder(response.RawResponse.Body).Decode(&body) == nil && body.Error.Message != "" {
			return fmt.Errorf("%s: %s", body.Error.Code, body.Error.Message)
		}
	}
	return fmt.Errorf("%s (status %d)", response.ErrorCode, response.StatusCode)
}
