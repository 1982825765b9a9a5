package api

import (
	"fmt"
	"net/http"
)

// Error is an outcome that a user should read: one line that says what and what
// to do, and the HTTP status that goes with it.
type Error struct {
	Status int
	Text   string
}

// Error returns the line.
func (e *Error) Error() string { return e.Text }

// Invalid is a request that can never work (400).
func Invalid(format string, args ...any) error { return failure(http.StatusBadRequest, format, args) }

// NotFound is a thing that does not exist (404), such as a config above the newest.
func NotFound(format string, args ...any) error { return failure(http.StatusNotFound, format, args) }

// Refused is the cluster saying no (409): nothing was changed.
func Refused(format string, args ...any) error { return failure(http.StatusConflict, format, args) }

// Unavailable is a part of the cluster that does not answer (503): nothing was changed.
func Unavailable(format string, args ...any) error {
	return failure(http.StatusServiceUnavailable, format, args)
}

// InDoubt is a change whose outcome is unknown (504): the same request id again
// finds out without acting twice.
func InDoubt(format string, args ...any) error {
	return failure(http.StatusGatewayTimeout, format, args)
}

func failure(status int, format string, args []any) error {
	return &Error{status, fmt.Sprintf(format, args...)}
}
