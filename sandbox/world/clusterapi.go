package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/site"
)

// How nodes come in where Cluster API builds them: its controllers run against the sandbox's API server, which is management and
// workload cluster at once.

// capiCluster is the Cluster that the sandbox's nodes are of.
var capiCluster = types.NamespacedName{Namespace: "clusters", Name: clusterName}

// startClusterAPI starts the controllers on a Cluster whose control plane is the sandbox's, and has pools be MachineDeployments.
func (w *World) startClusterAPI(ctx context.Context) error {
	if !w.site.ClusterAPI {
		return nil
	}
	began := time.Now()
	if err := w.letNodesJoin(ctx); err != nil {
		return fmt.Errorf("let nodes join with a token: %w", err)
	}
	dir := w.site.Path("clusterapi")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(kubeconfig, w.servers.Kubeconfig, 0o600)); err != nil {
		return err
	}
	// Its processes find what they are started beside by themselves; what is wrong with them shows here, and not in a pool.
	config := rest.CopyConfig(w.plane.Admin())
	config.QPS, config.Burst = 200, 400
	controllers, err := capi.Start(ctx, capi.Options{Bin: w.options.ClusterAPI, Config: config, Kubeconfig: kubeconfig, Dir: dir, Kubeadm: true})
	if err != nil {
		return fmt.Errorf("start the controllers of Cluster API: %w", err)
	}
	w.onStop(controllers.Stop)
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	over, err := region.NewClusterAPI(w.cloud, objects, capiCluster, disk.DefaultKubelet)
	if err != nil {
		return err
	}
	if err := makeCluster(ctx, objects, over.Infrastructure(), clusterFacts{port: w.plane.Port(), keyFile: w.site.Path("pki", "ca.key"), servers: w.servers}); err != nil {
		return fmt.Errorf("cluster %s of Cluster API's: %w", capiCluster, err)
	}
	w.cloud = over
	w.serve("the infrastructure provider of Cluster API", func() error {
		return capi.RunInfrastructure(w.ctx, config, over.Makers(), logr.Discard())
	})
	w.say("Cluster API: its core and kubeadm provider reconcile cluster %s (%.1f s)", capiCluster, time.Since(began).Seconds())
	return nil
}

// clusterFacts are what the objects of a cluster say of the sandbox's control plane.
type clusterFacts struct {
	port int
	// keyFile has the key of its authority.
	keyFile string
	servers site.Servers
}

// makeCluster makes the objects that a cluster is by, unless they are there. What a control plane's provider would say of the sandbox's
// own is said here.
func makeCluster(ctx context.Context, c client.Client, infrastructure *unstructured.Unstructured, of clusterFacts) error {
	labels := map[string]string{"cluster.x-k8s.io/cluster-name": capiCluster.Name}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: capiCluster.Namespace, Name: name, Labels: labels}
	}
	endpoint := map[string]any{"host": "127.0.0.1", "port": int64(of.port)}
	plane, cluster := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	plane.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
	plane.SetKind("ExternalControlPlane")
	if err := unstructured.SetNestedMap(infrastructure.Object, endpoint, "spec", "controlPlaneEndpoint"); err != nil {
		return err
	}
	cluster.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	cluster.SetKind("Cluster")
	cluster.Object["spec"] = map[string]any{
		"controlPlaneEndpoint": endpoint,
		"infrastructureRef":    map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": infrastructure.GetKind(), "name": capiCluster.Name},
		"controlPlaneRef":      map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "ExternalControlPlane", "name": capiCluster.Name},
	}
	// The kubeadm provider wants the key beside the certificate, as where Cluster API has made the authority; it only looks at the latter.
	key, err := os.ReadFile(of.keyFile)
	if err != nil {
		return err
	}
	const secret = "cluster.x-k8s.io/secret"
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: capiCluster.Namespace}},
		&corev1.Secret{Type: secret, ObjectMeta: meta(capiCluster.Name + "-kubeconfig"), Data: map[string][]byte{"value": of.servers.Kubeconfig}},
		&corev1.Secret{Type: secret, ObjectMeta: meta(capiCluster.Name + "-ca"), Data: map[string][]byte{"tls.crt": of.servers.CA, "tls.key": key}},
		infrastructure, plane, cluster,
	} {
		if u, is := o.(*unstructured.Unstructured); is {
			u.SetNamespace(capiCluster.Namespace)
			u.SetName(capiCluster.Name)
		}
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return c.Status().Patch(ctx, plane, client.RawPatch(types.MergePatchType, []byte(`{"status":{"externalManagedControlPlane":true,"initialization":{"controlPlaneInitialized":true}}}`)))
}
