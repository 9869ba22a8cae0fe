package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestDashboardServes the facts of a cluster on the printed address until an interrupt.
func TestDashboardServes(t *testing.T) {
	world, err := os.ReadFile("testdata/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server, err := newAPIServer(world, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig(server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	f := NewFactory()
	f.Out, f.Err = in, t.Output()
	f.Cloud = func(context.Context, *Options) (cloud.Provider, error) { return testPast("hostile").Provider, nil }
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- f.Run(ctx, []string{"dashboard", "--address", "localhost:0", "--kubeconfig", file}) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`^Dashboard: (http://localhost:\d+)\n$`).FindStringSubmatch(line)
	if address == nil {
		t.Fatalf("the command prints %q", line)
	}
	answer, err := http.Get(address[1])
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", answer.StatusCode, err)
	}
	for _, want := range []string{"pool1", "2026.03.01", "evil", strings.TrimPrefix(server.URL, "http://")} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if control.Match(body) {
		t.Error("the page has control characters")
	}
	cancel(errInterrupted)
	if code := <-ended; code != ExitDone {
		t.Errorf("exit code %d after an interrupt", code)
	}
}
