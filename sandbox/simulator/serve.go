package simulator

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// Serve answers on the listener over HTTPS until the context ends, which is no error.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, certificate tls.Certificate) error {
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// JSON answers with a body, or without a body if body is nil.
func JSON(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	data, err := json.Marshal(body)
	if err != nil { // all values came from JSON
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client has closed the connection
}

// StatusWriter records the written status, and what the handler reads and writes. Use Watch.
type StatusWriter struct {
	http.ResponseWriter
	// Status is 0 before the first write.
	Status  int
	request *http.Request
	in, out bytes.Buffer
}

// Watch returns a writer for the answer to the request. The handler must read the body of the request from the request.
func Watch(w http.ResponseWriter, r *http.Request) *StatusWriter {
	watched := &StatusWriter{ResponseWriter: w, request: r}
	if r.Body != nil {
		r.Body = &tee{ReadCloser: r.Body, to: &watched.in}
	}
	return watched
}

// WriteHeader implements http.ResponseWriter.
func (w *StatusWriter) WriteHeader(status int) {
	w.Status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *StatusWriter) Write(data []byte) (int, error) {
	w.out.Write(data)
	return w.ResponseWriter.Write(data)
}

// Wire is the request and the answer so far.
func (w *StatusWriter) Wire() *requestlog.Wire {
	return &requestlog.Wire{Agent: w.request.UserAgent(), Query: w.request.URL.RawQuery, In: w.in.String(), Out: w.out.String()}
}

// tee copies what is read.
type tee struct {
	io.ReadCloser
	to *bytes.Buffer
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.to.Write(p[:n])
	return n, err
}
