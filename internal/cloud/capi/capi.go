package capi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Images is the part of an ImageProvider that PoolProvider needs: the name of a version before a template names the
// version, and the cloud's groups.
type Images interface {
	NativeImage(ctx context.Context, place, image string) (string, error)
	ImageText(ctx context.Context, place, native string) (string, error)
	cloud.PoolSupport
	ImageID(ref cloud.FamilyVersion) string
	VersionOf(family cloud.ImageFamily, image string) (version string, latest bool)
	Image(ctx context.Context, ref cloud.FamilyVersion) (cloud.Image, error)
}

// Config configures New. All fields are required.
type Config struct {
	// Management is the connection to the cluster with Cluster API's objects.
	Management *rest.Config
	// Cluster is the name in the management cluster of the nodes' Cluster.
	Cluster types.NamespacedName
	// Images is the ImageProvider of the nodes' cloud.
	Images Images
}

// PoolProvider implements cloud.PoolProvider for the pools of a Cluster of Cluster API. PoolProvider is safe for
// concurrent use.
type PoolProvider struct {
	workshopBuilder
	*clusterAccess
}

// clusterAccess holds the connections, and facts that this process remembers.
type clusterAccess struct {
	cluster types.NamespacedName
	images  Images
	// groups is the PoolProvider of the cloud's groups behind machine pools; empty on clouds without such groups.
	groups  cloud.PoolProvider
	kube    *management
	account kubernetes.Interface

	mu sync.Mutex
	// placement is the place of the Cluster's machines and images after the first read. The place never changes.
	placement *placement
	// machines are names of Machines by provider ID, from the last read.
	machines map[cloud.InstanceID]string
}

// New makes the PoolProvider. New does no I/O.
func New(c Config) (*PoolProvider, error) {
	if c.Management == nil || c.Images == nil || c.Cluster.Namespace == "" || c.Cluster.Name == "" {
		return nil, errors.New("package capi: the configuration has no management cluster, no Cluster or no images")
	}
	kube, err := connectTo(c.Management, c.Cluster.Namespace)
	if err != nil {
		return nil, err
	}
	account, err := kubernetes.NewForConfig(c.Management)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	w := &clusterAccess{cluster: c.Cluster, images: c.Images, groups: c.Images.Groups(), kube: kube, account: account, machines: map[cloud.InstanceID]string{}}
	return &PoolProvider{workshopBuilder{w}, w}, nil
}

// ofCluster returns the label selector of the Cluster's objects.
func (r *clusterAccess) ofCluster() string { return labelCluster + "=" + r.cluster.Name }

// placement is the place of a Cluster's machines and images.
type placement struct {
	// place of the images, and location of the machines.
	place, location string
}

// readPlacement reads the Cluster's infrastructure, once per process.
func (r *clusterAccess) readPlacement(ctx context.Context) (placement, error) {
	r.mu.Lock()
	known := r.placement
	r.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	cluster, err := r.readCluster(ctx, opLook)
	if err != nil {
		return placement{}, err
	}
	named := cluster.reference("spec", "infrastructureRef")
	kind, found := infrastructureOfCluster(named.GroupKind)
	if !found {
		return placement{}, &cloud.Error{Kind: cloud.Unsupported, Op: opLook, Resource: cluster.String(), Code: cloud.PoolUnsupported,
			Message: fmt.Sprintf("the infrastructure is %s: Kamino supports AWSCluster and AzureCluster", named)}
	}
	of, err := r.kube.get(ctx, named.GroupKind, named.name)
	if err != nil {
		return placement{}, err
	}
	var at placement
	at.place, at.location = kind.place(specOf(of, "spec"))
	if at.place == "" {
		return placement{}, &cloud.Error{Kind: cloud.Unavailable, Op: opLook, Resource: of.String(),
			Message: "the location of the machines is unknown: wait until the infrastructure is provisioned"}
	}
	r.mu.Lock()
	r.placement = &at
	r.mu.Unlock()
	return at, nil
}

// infrastructureOfCluster returns the infrastructure of a cluster kind.
func infrastructureOfCluster(kind schema.GroupKind) (infrastructure, bool) {
	for _, known := range infrastructures {
		if known.cluster == kind.Kind && kind.Group == infrastructureGroup {
			return known, true
		}
	}
	return infrastructure{}, false
}
