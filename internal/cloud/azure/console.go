package azure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	opConsole = "read the serial console of"
	// consoleMinutes is the life of the address of a serial console.
	consoleMinutes = 5
	// maxConsoleLog limits the bytes that are read of a serial console's log.
	maxConsoleLog = 16 << 20
)

// ConsoleOutput implements cloud.ImageProvider, with the log of boot diagnostics in managed storage. Azure refuses the
// request with a conflict if boot diagnostics are off or have a storage account of the user.
func (p *ImageProvider) ConsoleOutput(ctx context.Context, id cloud.InstanceID) (string, error) {
	ref, err := p.parse(id)
	if err != nil {
		return "", err
	}
	ctx = cloud.WithoutReadCache(ctx)
	address, err := p.consoleAddress(ctx, ref)
	switch {
	case isStatus(err, http.StatusConflict), err == nil && address == "":
		return "", &cloud.Error{Kind: cloud.Unsupported, Op: opConsole, Resource: ref.String(),
			Message: "boot diagnostics with managed storage are not enabled", Err: err}
	case err != nil:
		return "", fail(opConsole, ref, err)
	}
	text, err := p.consoleLog(ctx, address)
	return text, fail(opConsole, ref, err)
}

// consoleAddress returns the address of the log. The address is a credential, and must not be logged.
func (p *account) consoleAddress(ctx context.Context, ref instance) (string, error) {
	clients, err := p.in(ref.scaleSet)
	if err != nil {
		return "", err
	}
	minutes := to.Ptr[int32](consoleMinutes)
	if ref.isStandalone() {
		got, err := clients.machines.RetrieveBootDiagnosticsData(ctx, ref.group, ref.number,
			&armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataOptions{SasURIExpirationTimeInMinutes: minutes})
		return value(got.SerialConsoleLogBlobURI), err
	}
	got, err := clients.instances.RetrieveBootDiagnosticsData(ctx, ref.group, ref.name, ref.number,
		&armcompute.VirtualMachineScaleSetVMsClientRetrieveBootDiagnosticsDataOptions{SasURIExpirationTimeInMinutes: minutes})
	return value(got.SerialConsoleLogBlobURI), err
}

// consoleLog reads the end of the log, without the credential of Azure Resource Manager. A missing log is empty.
func (p *account) consoleLog(ctx context.Context, address string) (string, error) {
	request, err := runtime.NewRequest(ctx, http.MethodGet, address)
	if err != nil {
		return "", errors.New("the address of the log is invalid")
	}
	runtime.SkipBodyDownload(request)
	response, err := runtime.NewPipeline(applicationID, "", runtime.PipelineOptions{}, &p.options.ClientOptions).Do(request)
	if err != nil {
		return "", withoutAddress(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", nil
	default:
		return "", fmt.Errorf("the storage of boot diagnostics answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	end, err := tail(io.LimitReader(response.Body, maxConsoleLog), cloud.ConsoleSize)
	return string(end), err
}

// withoutAddress returns the cause of a failed request. The address has a signature.
func withoutAddress(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// tail returns the last bytes of a stream.
func tail(from io.Reader, size int) ([]byte, error) {
	var end bytes.Buffer
	for {
		n, err := io.CopyN(&end, from, int64(size))
		end.Next(max(0, end.Len()-size))
		if n < int64(size) {
			if err == io.EOF { //nolint:errorlint // CopyN returns io.EOF itself
				err = nil
			}
			return end.Bytes(), err
		}
	}
}
