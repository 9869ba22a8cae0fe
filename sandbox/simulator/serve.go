package simulator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"
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

// StatusWriter records the written status; 0 before the first write.
type StatusWriter struct {
	http.ResponseWriter
	Status int
}

// WriteHeader implements http.ResponseWriter.
func (w *StatusWriter) WriteHeader(status int) {
	w.Status = status
	w.ResponseWriter.WriteHeader(status)
}
