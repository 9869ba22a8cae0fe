package azure

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Retries within a call are few and short: the call returns soon, and the caller repeats. A Retry-After beyond
// maxRetryDelay is returned as Throttled or Unavailable.
const (
	maxRetries    = 2
	retryDelay    = 300 * time.Millisecond
	maxRetryDelay = 2 * time.Second
	// tryTimeout limits a try. Azure answers long operations at once.
	tryTimeout = 60 * time.Second
	// maxOperations limits the resources with a remembered operation. Far fewer operations run at the same time.
	maxOperations = 256
	// applicationID is the beginning of the User-Agent.
	applicationID = "kamino"
)

// ImageProvider handles instances, disks, snapshots and galleries, and works without PoolProvider. ImageProvider is safe
// for concurrent use.
type ImageProvider struct {
	*account
	copier
	// externalPools is true if the PoolProvider is another package, so that instances may be standalone VMs.
	externalPools bool
}

func newImageProvider(a *account, externalPools bool) *ImageProvider {
	parse := parseInstance
	if externalPools {
		parse = parseVM
	}
	return &ImageProvider{account: a, copier: copier{a, parse}, externalPools: externalPools}
}

// CopiesOnRequest implements cloud.ImageProvider. No document says whether a flush of the guest passes the host's cache of an OS
// disk, and at which answer the content of a snapshot is fixed. A copy without the flush is discarded. Nodes of Cluster API have their
// own credentials, so that only a copy leaves them in service.
func (p *ImageProvider) CopiesOnRequest() bool { return !p.externalPools }

// PoolProvider handles scale sets and their models. PoolProvider is safe for concurrent use.
type PoolProvider struct {
	*account
	workshopBuilder
}

func newPoolProvider(a *account) *PoolProvider { return &PoolProvider{a, workshopBuilder{a}} }

// account holds the connection to Azure and the memory of this process, shared by both halves.
type account struct {
	credential azcore.TokenCredential
	options    *arm.ClientOptions

	mu sync.Mutex
	// clients by subscription.
	clients map[string]*clients
	// operations of this process by resource ID in lower case. An operation is polled only for the reason of a failed
	// resource. The last maxOperations resources are kept, in the order of recent.
	operations map[string]outcome
	recent     []string
	// joined are the permissions ([]need) of a trial outside the pool, by scaleSet, from the last read of the model.
	// Permissions then needs no further read.
	joined sync.Map
	// requesters are the snapshots that need a new gallery or definition, by the ID of the gallery or definition.
	requesters map[string]string
	// defined are IDs of galleries and image definitions that are complete and fit their pool.
	defined map[string]bool
	// empty are IDs of galleries and definitions that this process made and that have no version yet.
	empty map[string]bool
	// trialSets are IDs of scale sets that this process has seen with the tag of a trial.
	trialSets map[string]bool
	// copies are IDs of disks that this process has made as copies, until their end.
	copies map[string]bool
	// traits are diskTraits of snapshots by ID.
	traits sync.Map
	// noZoneRedundancy are regions without zone-redundant storage, by subscription and region.
	noZoneRedundancy map[string]bool
}

// clients of a subscription.
type clients struct {
	scaleSets   *armcompute.VirtualMachineScaleSetsClient
	instances   *armcompute.VirtualMachineScaleSetVMsClient
	machines    *armcompute.VirtualMachinesClient
	disks       *armcompute.DisksClient
	encryption  *armcompute.DiskEncryptionSetsClient
	snapshots   *armcompute.SnapshotsClient
	galleries   *armcompute.GalleriesClient
	definitions *armcompute.GalleryImagesClient
	versions    *armcompute.GalleryImageVersionsClient
	usages      *armcompute.UsageClient
	permissions *armauthorization.PermissionsClient
	rolling     *armcompute.VirtualMachineScaleSetRollingUpgradesClient
}

// New makes a provider of scale sets, managed disks and galleries, safe for concurrent use. New does no I/O; the first
// call shows a wrong credential.
func New(_ context.Context, config Config) (cloud.Provider, error) {
	shared, err := connect(config)
	if err != nil {
		return cloud.Provider{}, err
	}
	return cloud.New(cloud.DisksOf(newImageProvider(shared, false)), cloud.RecipesOf(newPoolProvider(shared))), nil
}

// NewDisks makes the ImageProvider for another PoolProvider. Instances may be standalone VMs. NewDisks does no I/O.
func NewDisks(_ context.Context, config Config) (*ImageProvider, error) {
	shared, err := connect(config)
	if err != nil {
		return nil, err
	}
	return newImageProvider(shared, true), nil
}

// NewRecipes makes the PoolProvider for another ImageProvider. NewRecipes does no I/O.
func NewRecipes(_ context.Context, config Config) (*PoolProvider, error) {
	shared, err := connect(config)
	if err != nil {
		return nil, err
	}
	return newPoolProvider(shared), nil
}

func connect(config Config) (*account, error) {
	if config.Credential == nil {
		return nil, errors.New("azure: the configuration has no credential: use LoadConfig")
	}
	if config.Cloud.ActiveDirectoryAuthorityHost == "" && len(config.Cloud.Services) == 0 {
		config.Cloud = azcloud.AzurePublic
	}
	options := &arm.ClientOptions{
		ClientOptions: policy.ClientOptions{
			Cloud:     config.Cloud,
			Transport: config.Transport,
			Retry: policy.RetryOptions{
				MaxRetries: maxRetries, RetryDelay: retryDelay, MaxRetryDelay: maxRetryDelay, TryTimeout: tryTimeout,
			},
			Telemetry: policy.TelemetryOptions{ApplicationID: applicationID},
		},
		// The registration of a resource provider would change the subscription without a request of the user.
		DisableRPRegistration: true,
	}
	options.PerCallPolicies = []policy.Policy{readCachePolicy{}}
	if config.OnRequest != nil {
		options.PerRetryPolicies = []policy.Policy{requestObserver{config.OnRequest}}
	}
	return &account{
		credential:       config.Credential,
		options:          options,
		clients:          map[string]*clients{},
		operations:       map[string]outcome{},
		requesters:       map[string]string{},
		defined:          map[string]bool{},
		empty:            map[string]bool{},
		trialSets:        map[string]bool{},
		copies:           map[string]bool{},
		noZoneRedundancy: map[string]bool{},
	}, nil
}

// requestObserver reports every try of every request to an observer.
type requestObserver struct {
	observe func(method string, status int, throttled bool)
}

// Do implements policy.Policy.
func (w requestObserver) Do(request *policy.Request) (*http.Response, error) {
	response, err := request.Next()
	status := 0
	if response != nil {
		status = response.StatusCode
	}
	w.observe(request.Raw().Method, status, status == http.StatusTooManyRequests)
	return response, err
}

// in returns the clients of a subscription.
func (p *account) in(s scaleSet) (*clients, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if described, able := p.credential.(*reloadingCredential); able && described.renew() {
		clear(p.clients) // old clients hold tokens of the old credential
	}
	if known := p.clients[s.subscription]; known != nil {
		return known, nil
	}
	compute, err := armcompute.NewClientFactory(s.subscription, p.credential, p.options)
	if err != nil {
		return nil, fail("connect to", s, err)
	}
	permissions, err := armauthorization.NewPermissionsClient(s.subscription, p.credential, p.options)
	if err != nil {
		return nil, fail("connect to", s, err)
	}
	made := &clients{
		scaleSets:   compute.NewVirtualMachineScaleSetsClient(),
		instances:   compute.NewVirtualMachineScaleSetVMsClient(),
		machines:    compute.NewVirtualMachinesClient(),
		disks:       compute.NewDisksClient(),
		encryption:  compute.NewDiskEncryptionSetsClient(),
		snapshots:   compute.NewSnapshotsClient(),
		galleries:   compute.NewGalleriesClient(),
		definitions: compute.NewGalleryImagesClient(),
		versions:    compute.NewGalleryImageVersionsClient(),
		usages:      compute.NewUsageClient(),
		permissions: permissions,
		rolling:     compute.NewVirtualMachineScaleSetRollingUpgradesClient(),
	}
	p.clients[s.subscription] = made
	return made, nil
}

// eachGroup calls do once per resource group, until the first error.
func (p *account) eachGroup(sets []scaleSet, do func(scaleSet, *clients) error) error {
	seen := map[string]bool{}
	for _, s := range sets {
		if seen[s.scope()] {
			continue
		}
		seen[s.scope()] = true
		clients, err := p.in(s)
		if err != nil {
			return err
		}
		if err := do(s, clients); err != nil {
			return err
		}
	}
	return nil
}

// outcome polls a long operation and returns the end and its error.
type outcome func(context.Context) (done bool, err error)

// rememberOperation keeps a started operation for its error. No call waits for an operation, because the resource has its own
// state.
func rememberOperation[T any](p *account, id string, poller *runtime.Poller[T]) {
	p.keepOperation(strings.ToLower(id), func(ctx context.Context) (bool, error) {
		if !poller.Done() {
			response, err := poller.Poll(ctx)
			if err != nil {
				return false, err
			}
			if poller.Done() && isSucceeded(response) {
				return true, nil // the SDK would read the whole resource again for the result
			}
		}
		if !poller.Done() {
			return false, nil
		}
		_, err := poller.Result(ctx)
		return true, err
	})
}

// keepOperation stores the operation of a resource, and forgets the oldest operation beyond maxOperations. A forgotten operation
// costs only Azure's message of a failure.
func (p *account) keepOperation(id string, operation outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = append(slices.DeleteFunc(p.recent, func(other string) bool { return other == id }), id)
	p.operations[id] = operation
	if len(p.recent) > maxOperations {
		delete(p.operations, p.recent[0])
		p.recent = p.recent[1:]
	}
}

// isSucceeded reports whether the status of a long operation is Succeeded. Source: Azure Resource Manager, "Track
// asynchronous Azure operations".
func isSucceeded(response *http.Response) bool {
	body, err := runtime.Payload(response)
	if err != nil {
		return false
	}
	var operation struct {
		Status string `json:"status"`
	}
	return json.Unmarshal(body, &operation) == nil && strings.EqualFold(operation.Status, "Succeeded")
}

// pollOperation polls this process's operation on the resource. Without an operation, done is false and err is nil.
func (p *account) pollOperation(ctx context.Context, id string) (done bool, err error) {
	p.mu.Lock()
	ask := p.operations[strings.ToLower(id)]
	p.mu.Unlock()
	if ask == nil {
		return false, nil
	}
	return ask(ctx)
}

// reason returns Azure's code and message for the failed operation of this process on the resource; empty without an
// operation or message.
func (p *account) reason(ctx context.Context, id string) string {
	var response *azcore.ResponseError
	if done, err := p.pollOperation(ctx, id); !done || !errors.As(err, &response) {
		return ""
	}
	return withCode(response.ErrorCode, readBody(response.RawResponse).text())
}

// setRequester records the snapshot that needs a gallery or definition.
func (p *account) setRequester(id, snapshotID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesters[strings.ToLower(id)] = snapshotID
}

func (p *account) isRequester(id, snapshotID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requesters[strings.ToLower(id)] == snapshotID
}

// hasStarted reports whether this process has started to make a resource.
func (p *account) hasStarted(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.operations[strings.ToLower(id)] != nil
}

// forget removes all records of a missing resource.
func (p *account) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.operations, strings.ToLower(id))
	p.recent = slices.DeleteFunc(p.recent, func(other string) bool { return other == strings.ToLower(id) })
	delete(p.requesters, strings.ToLower(id))
	delete(p.defined, strings.ToLower(id))
	delete(p.empty, strings.ToLower(id))
	delete(p.trialSets, strings.ToLower(id))
	delete(p.copies, strings.ToLower(id))
}

// markFilled marks galleries and definitions as no longer empty.
func (p *account) markFilled(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.empty, strings.ToLower(id))
	}
}

func (p *account) contains(set map[string]bool, key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return set[strings.ToLower(key)]
}

func (p *account) add(set map[string]bool, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set[strings.ToLower(key)] = true
}

// value dereferences an optional field of the SDK; the zero value if nil.
func value[T any](pointer *T) T {
	if pointer == nil {
		var zero T
		return zero
	}
	return *pointer
}

// tagsOf copies tags. A tag without a value is absent: some API versions store an empty text for a removed tag.
func tagsOf(tags map[string]*string) map[string]string {
	out := make(map[string]string, len(tags))
	for name, text := range tags {
		if value(text) != "" {
			out[name] = *text
		}
	}
	return out
}

// toTags converts tags to the SDK's form.
func toTags(tags map[string]string) map[string]*string {
	out := make(map[string]*string, len(tags))
	for name, text := range tags {
		if text != "" {
			out[name] = &text
		}
	}
	return out
}
