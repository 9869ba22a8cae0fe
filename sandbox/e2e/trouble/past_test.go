package trouble

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// past shows a controller the past: informers begin with lists of an earlier resource version, watches stand still or break, and the cloud
// answers reads for a moment as before a change. Writes always meet the present.
type past struct {
	mu     sync.Mutex
	random *rand.Rand
	// version of lists from the cache of an API server, until a time.
	version string
	until   time.Time
	// gate is closed while watches pass; broken ends those that are open.
	gate, broken chan struct{}
	// known are the last true answers of the cloud, and old those that are shown until a time.
	known map[string]answer
	old   map[string]shown
	// lists, stills and answers count what was shown.
	lists, stills, answers int
}

type answer struct {
	status int
	body   string
}

type shown struct {
	answer
	until time.Time
}

// oldest is the age of an old answer. It is real time, as the controller's own clock.
const oldest = 2 * time.Second

// behind is how long the cache of the API server that a new process finds is behind.
const behind = 5 * time.Second

func newPast(seed uint64) *past {
	open := make(chan struct{})
	close(open)
	return &past{random: rand.New(rand.NewPCG(seed, 63)), gate: open, broken: make(chan struct{}), known: map[string]answer{}, old: map[string]shown{}}
}

// still stops the watches, or lets them pass.
func (p *past) still(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
		if yes {
			p.gate, p.stills = make(chan struct{}), p.stills+1
		}
	default:
		if !yes {
			close(p.gate)
		}
	}
}

// breaks ends all watches.
func (p *past) breaks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.broken)
	p.broken = make(chan struct{})
}

// from is the resource version of the first lists of a process; empty for the present.
func (p *past) from(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version = version; version != "" {
		p.until = time.Now().Add(behind)
	}
}

func (p *past) handle(server sandboxtest.Server, r *http.Request) (h sandboxtest.Handling) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	switch {
	case server == sandboxtest.Cloud:
		if r.Method == http.MethodGet {
			h.Answer = p.aged
		}
	case q.Get("watch") == "true" || q.Get("watch") == "1":
		h.Until, h.Answer = p.broken, p.gated
		if q.Get("sendInitialEvents") == "true" {
			h.Answer = listsInstead
		}
	case time.Now().Before(p.until) && q.Get("resourceVersion") == "0":
		p.lists++
		q.Set("resourceVersion", p.version)
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		r.URL.RawQuery = q.Encode()
	}
	return h
}

// listsInstead refuses a watch that begins with a list.
func listsInstead(r *http.Response) error {
	text, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "list, then watch"})
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	r.Header.Set("Content-Type", "application/json")
	replace(r, answer{http.StatusUnprocessableEntity, string(text)})
	return nil
}

func replace(r *http.Response, by answer) {
	r.StatusCode, r.Status = by.status, fmt.Sprintf("%d %s", by.status, http.StatusText(by.status))
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(by.body)), int64(len(by.body))
	r.Header.Del("Content-Encoding")
	r.Header.Set("Content-Length", fmt.Sprint(len(by.body)))
}

// gated stops the events of a watch while watches stand still.
func (p *past) gated(r *http.Response) error {
	r.Body = &gatedBody{r.Body, p, r.Request.Context().Done()}
	return nil
}

type gatedBody struct {
	io.ReadCloser
	past *past
	end  <-chan struct{}
}

// Read implements io.Reader.
func (b *gatedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.past.mu.Lock()
	gate := b.past.gate
	b.past.mu.Unlock()
	select {
	case <-gate:
	case <-b.end:
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// aged replaces the answer to a read of the cloud by the one before, for a drawn time after a change.
func (p *past) aged(r *http.Response) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(raw))
	p.mu.Lock()
	defer p.mu.Unlock()
	key, now := r.Request.URL.Path+"?"+r.Request.URL.RawQuery, time.Now()
	before, isKnown := p.known[key]
	p.known[key] = answer{r.StatusCode, string(raw)}
	if isKnown && before != p.known[key] {
		p.old[key] = shown{before, now.Add(time.Duration(p.random.Int64N(int64(oldest))))}
	}
	if old := p.old[key]; now.Before(old.until) {
		p.answers++
		replace(r, old.answer)
	}
	return nil
}

// TestCapturesThatSeeThePast plays captures in place and by copy by controllers that see the past, and that are killed. The world is at the
// end as without, and the judge of the sandbox reads the logs of the run.
func TestCapturesThatSeeThePast(t *testing.T) {
	const seeds = 2
	t.Logf("%d schedules", 2*seeds)
	for _, course := range []string{"place", "copy"} {
		for seed := range uint64(seeds) {
			name := fmt.Sprintf("%s%d", course, seed)
			t.Run(name, func(t *testing.T) {
				profile, method, flags := "static", v1alpha1.MethodInPlace, []string{}
				if course == "copy" {
					profile, method = "bootstrap", v1alpha1.MethodCopy
				}
				e := sandbox.NewEnv(t, "name=past"+name+",nodes=2,profile="+profile)
				if course == "copy" {
					file := filepath.Join(t.TempDir(), "cloud-init.yaml")
					e.Must(os.WriteFile(file, specOf(e, e.Donor).CustomData, 0o600))
					grantSecrets(e)
					flags = []string{"--custom-data", file}
				}
				seesThePast(e, newPast(seed+1), append(flags, "--method", string(method), "--wait=false"))
				if course == "copy" {
					e.AssertCopied(e.Before, e.Donor)
				} else {
					e.AssertCaptured(e.Before, e.Donor)
				}
			})
		}
	}
}

// seesThePast plays a capture to its end.
func seesThePast(e *sandboxtest.Env, p *past, flags []string) {
	e.Helper()
	present := e.Environ
	proxied := sandbox.Intercept(e.T, present, p.handle)
	start := func(version string) *sandboxtest.Process {
		p.from(version)
		e.Environ = proxied
		defer func() { e.Environ = present }()
		return e.StartController()
	}
	var versions []string
	controller, kills, course := start(""), 0, []string{}
	e.Capture(e.Donor, flags...).ExpectExit(0)
	e.Eventually("its capture ends", func() (bool, string) {
		prototype := e.Prototype()
		if prototype != nil && sandboxtest.Ended(prototype) {
			return true, ""
		}
		list, err := e.Kube().CoreV1().Nodes().List(e.Context(), metav1.ListOptions{})
		e.Must(err)
		versions = append(versions, list.ResourceVersion)
		p.mu.Lock()
		draw, pause := p.random.IntN(8), time.Duration(p.random.Int64N(int64(time.Second)))
		version := versions[p.random.IntN(len(versions))]
		p.mu.Unlock()
		switch {
		case draw < 2:
			p.still(true)
			course = append(course, "watches stand still")
		case draw < 5:
			p.still(false)
			course = append(course, "watches go on")
		case draw == 5:
			p.breaks()
			course = append(course, "watches break")
		case kills < 4:
			kills++
			e.Kill(controller)
			p.still(true)
			controller = start(version)
			course = append(course, "a new process begins at resource version "+version)
		}
		time.Sleep(pause)
		return false, fmt.Sprintf("%+v\n%s", prototype, strings.Join(course, "\n"))
	})
	p.still(false)
	e.Kill(controller)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Logf("%d old lists, %d times watches stood still, %d old answers of the cloud, %d kills", p.lists, p.stills, p.answers, kills)
	if p.lists == 0 || p.stills == 0 || p.answers == 0 || kills == 0 {
		e.Errorf("the controllers saw the present: %s", strings.Join(course, "\n"))
	}
}
