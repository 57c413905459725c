// Package command makes a command-line program the operation of a call: one process per attempt.
//
// # The model
//
// A [Command] describes the process; its method Run is a retry.Operation. Each attempt starts the program anew in a
// separate process group, with the same input, and with the attempt's number, the key and the call's ID in its
// environment. What the program prints passes through as it comes.
//
// An attempt ends well with exit code 0. Otherwise its error is one of
//
//	*ExitError       it ended with another code, or by a signal
//	*TimeoutError    its time was up: the whole group was stopped
//	*StartError      it could not be started; retried only where the machine lacked descriptors, processes or memory
//	Interrupt        the caller was told to stop by a signal, which was handed on to the group
//	ErrInputTooLong  more came in than is kept for a repetition; never retried
//
// [Classifier] says which exit codes are worth another attempt, and [ExitCode] what a call's error means to the shell.
package command
