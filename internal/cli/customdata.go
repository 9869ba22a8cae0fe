package cli

import (
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// readCustomData reads the file that --custom-data names: standard input for "-", and nothing where none is named.
func readCustomData(in io.Reader, path string) ([]byte, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("--custom-data: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, corev1.MaxSecretSize+1))
	switch {
	case err != nil:
		return nil, usagef("--custom-data: %w", err)
	case len(data) == 0:
		return nil, usagef("--custom-data %s is empty: pass the original customData file of the pool", path)
	case len(data) > corev1.MaxSecretSize:
		return nil, usagef("--custom-data %s is larger than the limit of a Secret, %d bytes", path, corev1.MaxSecretSize)
	case savedrecipe.Encoded(data):
		return nil, usagef("--custom-data %s is base64, so that kamino restore would encode the file twice: decode the file first (base64 -d). "+
			"If the original customData really is base64, pass a Secret with --custom-data-from", path)
	}
	return data, nil
}

// secrets are those that keep what recipes lose.
func (s *session) secrets() savedrecipe.Secrets {
	return savedrecipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
}
