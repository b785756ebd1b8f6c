//! Every reduction and operation is an operator of its name.

use warpfold::by_name::find;
use warpfold::kernels::operations::Operation;
use warpfold::reductions::Reduction;

#[test]
fn every_reduction_has_its_operator() {
    for reduction in Reduction::ALL.iter().filter(|reduction| **reduction != Reduction::TopK) {
        let inputs = find(reduction.name()).unwrap_or_else(|error| panic!("{error}")).inputs;
        assert_eq!(inputs, (reduction.inputs(), reduction.inputs()));
    }
}

#[test]
fn every_operation_of_tensors_has_its_operator() {
    for operation in Operation::ALL.iter().filter(|operation| operation.inputs() > 0) {
        let inputs = find(operation.name()).unwrap_or_else(|error| panic!("{error}")).inputs;
        assert_eq!(inputs, (operation.inputs(), operation.inputs()));
    }
}
