package runner

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"

	"github.com/kamino-dev/kamino/internal/notify/delivery"
)

// inbox counts the CloudEvents that a receiver has got over HTTP, by type and pool.
type inbox struct {
	mu     sync.Mutex
	events map[string]int
}

// receiver starts a receiver of notices. A dead endpoint comes first in the controller's file.
func (a *alertEnv) receiver() *inbox {
	box := &inbox{events: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event := struct {
			Type, Source string
			Data         struct{ Pool, Message, Link string }
		}{}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil || r.URL.Path != "/hook/token" || event.Source != "/kamino/test" ||
			event.Data.Message == "" || event.Data.Link == "" {
			a.Errorf("%s %s: event %+v, error %v", r.Method, r.URL, event, err)
		}
		box.mu.Lock()
		defer box.mu.Unlock()
		box.events[event.Type+" "+event.Data.Pool]++
		w.WriteHeader(http.StatusNoContent)
	}))
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	a.Cleanup(server.Close)
	file := filepath.Join(a.TempDir(), "urls")
	a.must(os.WriteFile(file, []byte(dead.URL+"\n"+server.URL+"/hook/token\n"), 0o600))
	var err error
	a.endpoints, err = delivery.Read(file)
	a.must(err)
	return box
}

// missing are the expected events that have not come.
func (b *inbox) missing() (missing []string) {
	events := b.all()
	for _, want := range []string{"dev.kamino.failed tried", "dev.kamino.approval waiting", "dev.kamino.rolledback back", "dev.kamino.frozen back"} {
		if events[want] == 0 {
			missing = append(missing, want)
		}
	}
	return missing
}

func (b *inbox) all() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.events)
}
