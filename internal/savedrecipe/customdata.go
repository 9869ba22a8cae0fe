package savedrecipe

import (
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// ReadCustomData reads the file of --custom-data. A path of "-" reads in, and an empty path reads nothing. The error names the flag and
// the remedy.
func ReadCustomData(in io.Reader, path string) ([]byte, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--custom-data: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, corev1.MaxSecretSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--custom-data: %w", err)
	case len(data) == 0:
		return nil, fmt.Errorf("--custom-data %s is empty: pass the original customData file of the pool", path)
	case len(data) > corev1.MaxSecretSize:
		return nil, fmt.Errorf("--custom-data %s is larger than the limit of a Secret, %d bytes", path, corev1.MaxSecretSize)
	case Encoded(data):
		return nil, fmt.Errorf("--custom-data %s is base64, and kamino restore would encode the file twice: decode the file first (base64 -d). "+
			"If the original customData really is base64, pass a Secret with --custom-data-from", path)
	}
	return data, nil
}
