package trouble

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"syscall"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func tlsConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// line is the network between the ground's children and the API server. It can break. Its port stays taken
// then, so that nobody else is found there.
type line struct {
	address, target string
	port            int // a socket that is bound to the address and never listens

	mu       sync.Mutex
	flows    *sync.Cond
	silent   bool
	listener net.Listener
	open     map[net.Conn]bool
}

// newLine makes one and points the ground's kubeconfig at it.
func (g *ground) newLine() *line {
	g.Helper()
	to, err := url.Parse(sandbox.Config().Host)
	g.must(err)
	l := &line{target: to.Host, open: map[net.Conn]bool{}}
	l.flows = sync.NewCond(&l.mu)
	g.must(l.take())
	g.must(l.listen())
	g.Cleanup(func() {
		l.cut()
		_ = syscall.Close(l.port)
	})
	g.kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + l.address })
	return l
}

// take binds a free port. With the option, a listener can be bound there as well.
func (l *line) take() (err error) {
	if l.port, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err := syscall.SetsockoptInt(l.port, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := syscall.Bind(l.port, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	bound, err := syscall.Getsockname(l.port)
	if err != nil {
		return err
	}
	l.address = fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
	return nil
}

func (l *line) listen() error {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go l.join(near)
		}
	}()
	return nil
}

// join carries bytes between a client and the API server until one of them hangs up.
func (l *line) join(near net.Conn) {
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = near.Close()
		return
	}
	l.mu.Lock()
	l.open[near], l.open[far] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(&valve{line: l, to: pair[0]}, pair[1])
			_, _ = near.Close(), far.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	delete(l.open, near)
	delete(l.open, far)
	l.mu.Unlock()
}

// valve lets bytes pass while the line is not silent.
type valve struct {
	line *line
	to   net.Conn
}

// Write implements io.Writer.
func (v *valve) Write(p []byte) (int, error) {
	v.line.mu.Lock()
	for v.line.silent {
		v.line.flows.Wait()
	}
	v.line.mu.Unlock()
	return v.to.Write(p)
}

// hush lets nothing pass until mend, and breaks nothing off.
func (l *line) hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = true
}

// cut breaks every connection off and refuses new ones until mend.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.listener.Close()
	for conn := range l.open {
		_ = conn.Close()
	}
	l.silent = false
	l.flows.Broadcast()
}

// mend ends what hush or cut began.
func (l *line) mend() error {
	l.mu.Lock()
	silent := l.silent
	l.silent = false
	l.flows.Broadcast()
	l.mu.Unlock()
	if silent {
		return nil
	}
	return l.listen()
}
