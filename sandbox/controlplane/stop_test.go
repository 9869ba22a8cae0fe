package controlplane

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestStopDoesNotWaitForClients: clients that watch, that never send the body of a request, or that never read, do not delay the end.
func TestStopDoesNotWaitForClients(t *testing.T) {
	g, client, stop := start(t, order{Dir: t.TempDir()})
	watch, err := client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	config, err := clientcmd.RESTConfigFromKubeConfig(g.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secured, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	secured.NextProtos, secured.ServerName = []string{"http/1.1"}, "localhost"
	address := client.CoreV1().RESTClient().(*rest.RESTClient).Get().URL().Host
	for _, request := range []string{
		"", // nothing is asked
		"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"GET /api/v1/nodes?watch=true HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, secured)
		t.Cleanup(func() { _ = c.Close() })
		if _, err := fmt.Fprint(c, request); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the control plane ended after %s", took)
	}
}
